"""Sizes and strides: the geometry of a convolution, the space of a fused map, views of arrays.

geometry.py has strides, padding and output sizes of a convolution; space.py has broadcasting,
and dimensions merged; view.py has slices and transposes. Pure: no device and no plan. tiles,
conv2d, map, reduce, strided and sched call it.
"""
