"""strided_copy: elements from one strided view of an Array to another, on one device.

Users and mesh call it. operation.py has the operation; moves.py turns a copy into a kernel's
arguments.
"""

__all__ = ["operation"]  # what the API reference shows
