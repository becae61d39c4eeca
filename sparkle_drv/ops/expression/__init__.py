"""The language of maps: text or a traced Python function becomes a graph, then a program.

grammar, trace and symbol read it; promote, typed and scalars settle types by numpy's rules; program
and lower write what kernels run. No device and no launch. map, reduce, ref and sched call it.

    grammar.py        parses text: tokens, precedence, limits; the keys of operations (ARITY)
    trace.py          traces a Python function: calls it with symbols
    symbol.py         what a traced function may do with its arguments
    graph.py          text and traced functions as one graph; equal nodes are one
    promote.py        numpy's type promotion (NEP 50), scalars included
    scalars.py        which nodes are the same for all elements: computed once, on the host
    typed.py          a type for each node, conversions, powers as products
    program.py        postfix programs of the map_* kernels: slots and stack
    lower.py          register programs of fused_map: fused multiply-adds, order, registers
    elementwise.py    each operation in numpy: the meaning of a step
"""
