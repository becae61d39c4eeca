"""The cuda device: an NVIDIA GPU through its driver library alone.

The registry opens `BACKEND`.

    backend.py           CudaBackend: the protocol of base.py over native/cuda
    driver.py            finds libcuda and its devices, and explains its failures
    image.py             PTX, cubin and fatbin: the blob that fits a GPU; users' images
    memory.py            handles of memory, host views
    launch_refusal.py    explains launches that native code refused
"""

from sparkle_drv.backends.base import Backend
from sparkle_drv.backends.cuda.backend import CudaBackend

BACKEND: type[Backend] = CudaBackend
