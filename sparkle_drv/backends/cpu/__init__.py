"""The cpu device: C kernels, a thread pool, and queues with a worker each.

The registry opens `BACKEND`.

backend.py has CpuBackend, the protocol of base.py over native/cpu. It chooses the instruction set:
the one in the URI, SPARKLE_CPU_ISA, or the best one. On several NUMA nodes it assigns threads to
nodes. cores.py reads URIs of named cores: "cpu:c0", "cpu:c2-5/avx2", "cpu:node1". image.py checks a
user's shared library before it is mapped.
"""

from sparkle_drv.backends.base import Backend
from sparkle_drv.backends.cpu.backend import CpuBackend

BACKEND: type[Backend] = CpuBackend
