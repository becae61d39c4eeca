"""Device, Buffer, Array, Kernel, Commands, Queue, Fence, Pipeline: one concrete class per noun.

Checks arguments, owns lifetimes and fences once; backends below are small objects over opaque
handles.
"""
