"""gemm, a matrix product with bias and activation, and its plans.

operation.py checks arguments, chooses a kernel and launches it. Block sizes are in tiles. Users and
sched call it.
"""

__all__ = ["operation"]  # what the API reference shows
