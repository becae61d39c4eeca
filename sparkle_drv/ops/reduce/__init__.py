"""reduce: sums, extremes and means over axes of an array, or of a map while it is computed.

operation.py reduces arrays, one block of neighbouring axes after the other. fold.py reduces maps in
one pass, and orders the axes for both. map/ has fused maps. Users and sched call this folder.
"""

__all__ = ["operation"]  # the API reference shows only this module
