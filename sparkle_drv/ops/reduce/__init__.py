"""reduce, sums and extremes over axes: of arrays, or of a map while it is computed.

operation.py reduces arrays, run by run of axes; fold.py reduces maps in one pass, and orders the
axes for both. Fused maps themselves are in map. Users and sched call it.
"""

__all__ = ["operation"]  # what the API reference shows
