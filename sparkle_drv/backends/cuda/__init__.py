"""The cuda device: an NVIDIA GPU through its driver library alone. `BACKEND` is what the registry
opens.
"""

from sparkle_drv.backends.base import Backend
from sparkle_drv.backends.cuda.backend import CudaBackend

BACKEND: type[Backend] = CudaBackend
