"""The language of maps: text or a traced Python function becomes a graph, then a program.

grammar, trace and symbol read it; promote, typed and scalars settle types by numpy's rules; program
and lower write what kernels run. No device and no launch. map, reduce, ref and sched call it.

    elementwise.py    each operation in numpy: the meaning of a step; the keys of operations (ARITY)
    graph.py          nodes and graphs: equal nodes are one; postfix lists
    grammar.py        text as a graph: tokens, precedence, limits
    trace.py          traces a Python function: calls it with symbols
    symbol.py         what a traced function may do with its arguments
    promote.py        numpy's type promotion (NEP 50)
    scalars.py        which nodes are the same for all elements: computed once, on the host
    typed.py          a type for each node, conversions, powers as products
    program.py        postfix programs of the map_* kernels: slots and stack
    lower.py          register programs of fused_map: fused multiply-adds, order, registers
"""
