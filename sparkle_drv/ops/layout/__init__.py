"""layout: converts images between NCHW, NHWC and blocked layouts, and parses names of layouts.

Users and sched call this. The kernels only move elements; this folder decides on padding.
"""

__all__ = ["operation"]  # the API reference shows only this module
