"""conv2d, a 2-D cross-correlation with bias and activation, and its plans.

operation.py checks arguments, chooses a kernel and launches it. shapes/ has the geometry, tiles/
the choice of the algorithm. Users and sched call this.
"""

__all__ = ["operation"]  # the API reference shows only this module
