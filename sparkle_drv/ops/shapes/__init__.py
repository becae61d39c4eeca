"""Sizes and strides: the geometry of a convolution, the space of a fused map, views of arrays.

geometry.py has strides, padding and output sizes of a convolution. space.py broadcasts and merges
dimensions. view.py has slices and transposes. These files use no device and no plan. tiles, conv2d,
map, reduce, strided and sched call them.
"""
