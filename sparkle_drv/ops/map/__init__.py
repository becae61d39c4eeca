"""map computes an expression for every element of arrays.

operation.py has the call: it binds values to names. fused.py launches the kernel fused_map, on
devices that have it. The language is in expression/. Users, reduce and sched call this folder.
"""

__all__ = ["operation"]  # the API reference shows only this module
