"""Sizes and strides: the geometry of a convolution, and the space that a fused map runs through.

geometry.py has strides, padding and output sizes of a convolution; space.py has broadcasting,
and dimensions merged. Pure: no device and no plan. tiles, conv2d, map, reduce and sched call it.
"""
