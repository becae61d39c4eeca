"""strided_copy copies elements from one strided view of an Array to another, on one device.

operation.py has the operation; moves.py turns a copy into a kernel's arguments. Users and mesh call
this folder.
"""

__all__ = ["operation"]  # the part that the API reference shows
