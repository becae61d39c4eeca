"""gemm, a matrix product with bias and activation, and its plans.

operation.py checks arguments, chooses a kernel and launches it. ops/tiles has the block sizes.
Users and sched call this.
"""

__all__ = ["operation"]  # the API reference shows only this module
