"""conv2d, a 2-D cross-correlation with bias and activation, and its plans.

operation.py checks arguments, chooses a kernel and launches it. fastpath.py is the table by which C
repeats a convolution of numpy arrays. The geometry is in shapes, the choice of the algorithm in
tiles. Users and sched call it.
"""

__all__ = ["operation"]  # what the API reference shows
