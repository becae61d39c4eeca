"""The peers of gpu_peers.py: ways to drive an NVIDIA GPU, one module each, behind one interface
(base.py). Each is measured in processes of its own (child.py); one that is not installed is absent.
"""

NAMES = ("c", "sparkle", "bindings", "core", "cupy", "torch", "numba", "triton")
