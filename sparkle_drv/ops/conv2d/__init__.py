"""conv2d, a 2-D cross-correlation with bias and activation, and its plans.

operation.py checks arguments, chooses a kernel and launches it. shapes/ has the geometry, tiles/
the choice of the algorithm. Users and sched call it.
"""

__all__ = ["operation"]  # what the API reference shows
