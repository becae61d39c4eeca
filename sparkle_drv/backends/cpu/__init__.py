"""The cpu device: C kernels, a thread pool, queues with a worker each.

`BACKEND` is what the registry opens.
"""

from sparkle_drv.backends.base import Backend
from sparkle_drv.backends.cpu.backend import CpuBackend

BACKEND: type[Backend] = CpuBackend
