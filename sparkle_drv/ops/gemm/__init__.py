"""gemm, a matrix product with bias and activation, and its plans.

operation.py checks arguments, chooses a kernel and launches it. ops/tiles has the block sizes.
Users and sched call this.
"""

__all__ = ["operation"]  # the part that the API reference shows
