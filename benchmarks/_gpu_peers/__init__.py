"""The peers of gpu_peers.py: ways to drive an NVIDIA GPU, one module each, behind one interface
(base.py).

Each is measured in processes of its own (child.py); one that is not installed is absent. Called by
gpu_peers.py; cuda_launch.py and gpu_kernels.py use parts. Not here: kernels that compute.

    sparkle.py, bindings.py, core.py, cupy.py, numba.py, torch.py, triton.py    the peers; bindings
                    and core are cuda.bindings and cuda.core
    base.py         the interface of a peer
    child.py        one repetition of one peer, in its process
    images.py       empty kernels as PTX
    baseline.c      the same figures in C; burst.c the C baseline of cuda_launch.py
    table.py        facts of the run, the Markdown table
"""

NAMES = ("c", "sparkle", "bindings", "core", "cupy", "torch", "numba", "triton")
