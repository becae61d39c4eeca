"""Merges tasks of a graph before they are placed.

The modules rewrite tasks and expressions; fold.py changes weights on the host. No module here
chooses or calls a device. graph calls this package.

    merge.py       which tasks become one: map into map, map into product, map into reduction
    epilogue.py    which part of a map can be the epilogue of a product
    fold.py        multiplies weights and bias by the scale in a map, on the host
    layouts.py     NCHW and NHWC: removes changes that cancel, moves work to the other layout
"""
