"""Which tasks of a graph become one before they are placed.

Rewriting of tasks and expressions; fold.py changes weights on the host. Nothing here chooses or
calls a device. Called by graph, and compose.py by place.

    merge.py       which tasks become one: map into map, map into product, map into reduction
    compose.py     puts one expression into another
    epilogue.py    bias, activation and scale that a product can take over from a map
    fold.py        multiplies weights and bias by such a scale, on the host
    layouts.py     NCHW and NHWC: changes that cancel, work done in the other layout
"""
