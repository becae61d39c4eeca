"""layout: images between NCHW, NHWC and blocked layouts, and what a layout's name says.

Users and sched call it. The C kernels only move; what is padded or dropped is decided here.
"""

__all__ = ["operation"]  # what the API reference shows
