"""The cpu device: C kernels, a thread pool, queues with a worker each.

`BACKEND` is what the registry opens.

backend.py is CpuBackend, the protocol of base.py over native/cpu. It chooses the instruction set:
the best, SPARKLE_CPU_ISA, or the one that the URI names. It places threads where there are several
NUMA nodes. cores.py reads the URIs of named cores: "cpu:c0", "cpu:c2-5/avx2", "cpu:node1". image.py
checks a user's shared library before it is mapped.
"""

from sparkle_drv.backends.base import Backend
from sparkle_drv.backends.cpu.backend import CpuBackend

BACKEND: type[Backend] = CpuBackend
