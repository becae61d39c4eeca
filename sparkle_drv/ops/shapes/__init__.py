"""Sizes and strides: the geometry of a convolution, and the space that a fused map runs through.

Pure: no device and no plan. tiles, conv2d, map, reduce and sched call it.
"""
