"""The language of maps: text or a traced Python function becomes a graph, then a program.

grammar, trace and symbol make the graph. promote, typed and scalars choose types by numpy's rules.
program and lower write the programs that kernels run. This folder uses no device and launches
nothing. map, reduce, ref and sched call it.

    elementwise.py    each operation as a numpy function; how many operands an operation has
    graph.py          nodes and graphs, which merge equal nodes; postfix lists
    grammar.py        text as a graph: tokens, precedence, limits
    trace.py          traces a Python function: calls it with symbols
    symbol.py         the operations that a traced function may apply to its arguments
    promote.py        numpy's type promotion (NEP 50)
    comparisons.py    comparisons with whole numbers that int64 cannot hold
    scalars.py        nodes with one value for all elements, computed once on the host
    typed.py          a type for each node, conversions, powers as products
    program.py        postfix programs of the map_* kernels: slots and stack
    lower.py          register programs of fused_map: fused multiply-adds, order, registers
"""
