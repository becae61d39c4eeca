"""The cpu device: C kernels, a thread pool, queues with a worker each.

`BACKEND` is what the registry opens.

backend.py is CpuBackend, the protocol of base.py over native/cpu. It chooses the instruction set:
the best, or SPARKLE_CPU_ISA; it places threads where there are several NUMA nodes. image.py checks
a user's shared library before it is mapped.
"""

from sparkle_drv.backends.base import Backend
from sparkle_drv.backends.cpu.backend import CpuBackend

BACKEND: type[Backend] = CpuBackend
