"""The peers of gpu_peers.py: ways to drive an NVIDIA GPU, one module each, behind one interface
(base.py). Each is measured in processes of its own (child.py); one that is not installed is absent.
images.py has what all of them load, table.py the report, baseline.c the same without Python. Called
by gpu_peers.py; cuda_launch.py and gpu_kernels.py take parts. Kernels that compute are not here.
"""

NAMES = ("c", "sparkle", "bindings", "core", "cupy", "torch", "numba", "triton")
