"""gemm, a matrix product with bias and activation, and its plans.

operation.py checks arguments, chooses a kernel and launches it. ops/tiles has the block sizes.
Users and sched call it.
"""

__all__ = ["operation"]  # what the API reference shows
