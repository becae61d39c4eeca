"""The peers of gpu_peers.py: ways to drive an NVIDIA GPU, one module each, behind one interface
(base.py).

Each peer is measured in its own processes (child.py). A peer that is not installed is reported as
absent. gpu_peers.py calls these modules. cuda_launch.py and gpu_kernels.py use some of them. The
kernels of all peers do nothing.

    sparkle.py, bindings.py, core.py, cupy.py, numba.py, torch.py, triton.py    the peers; bindings
                    and core are cuda.bindings and cuda.core
    base.py         the interface of a peer
    child.py        one repetition of one peer, in its process
    images.py       empty kernels as PTX
    baseline.c      the same figures, measured from C
    burst.c         the C baseline of cuda_launch.py
    table.py        facts of the run, the Markdown table
"""

NAMES = ("c", "sparkle", "bindings", "core", "cupy", "torch", "numba", "triton")
