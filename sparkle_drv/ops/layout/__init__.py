"""layout: converts images between NCHW, NHWC and blocked layouts, and parses names of layouts.

Users and sched call this. The kernels only move elements; this folder decides on padding.
"""

__all__ = ["operation"]  # the part that the API reference shows
