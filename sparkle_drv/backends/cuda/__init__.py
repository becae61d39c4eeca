"""The cuda device: an NVIDIA GPU through its driver library alone. `BACKEND` is what the registry
opens.

    backend.py           CudaBackend: the protocol of base.py over native/cuda
    driver.py            finds libcuda, its devices, and words for its failures
    image.py             PTX, cubin and fatbin: which blob fits a GPU; users' images
    memory.py            handles of memory, host views
    launch_refusal.py    words for a launch that native code refused
"""

from sparkle_drv.backends.base import Backend
from sparkle_drv.backends.cuda.backend import CudaBackend

BACKEND: type[Backend] = CudaBackend
