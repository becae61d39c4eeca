"""map, an expression over every element: values for its names, and the launch.

operation.py is the call, fused.py the one pass of devices with fused_map. The language itself is in
expression. Users, reduce and sched call it.
"""

__all__ = ["operation"]  # what the API reference shows
