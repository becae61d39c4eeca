"""strided_copy copies elements from one strided view of an Array to another, on one device.

operation.py has the operation; moves.py turns a copy into a kernel's arguments. Users and mesh call
this folder.
"""

__all__ = ["operation"]  # the API reference shows only this module
