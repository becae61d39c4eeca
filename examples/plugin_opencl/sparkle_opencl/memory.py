"""Buffers: shared virtual memory (SVM), which has addresses as kernels and hosts know them.

Memory.HOST and Memory.SHARED are fine-grained, so that the host may read and write them while the
device does; so is Memory.DEVICE where device and host share their memory anyway, else it is
coarse-grained: the device's own, and the host gets at it by copies alone.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np
import pyopencl as cl

import sparkle_drv as sp
from sparkle_opencl.trouble import translated

_FLAGS = cl.svm_mem_flags
_ALIGNMENT = 128  # of a double16; sparkle_drv wants 64


class _Shared:
    """Shared virtual memory; freed with the last reference."""

    def __init__(self, context: Any, nbytes: int, flags: int) -> None:
        self.svm = cl.SVMAllocation(context, nbytes, _ALIGNMENT, flags)
        self.nbytes = nbytes
        _alive.add(self)


_alive: weakref.WeakSet[_Shared] = weakref.WeakSet()


def live() -> dict[str, int]:
    """What is alive in the whole process."""
    alive = list(_alive)
    return {"opencl_blocks": len(alive), "opencl_blocks_nbytes": sum(s.nbytes for s in alive)}


class Block:
    """One allocation. `host`: may the host touch it at any time?"""

    def __init__(self, context: Any, nbytes: int, host: bool, uri: str) -> None:
        self.nbytes = max(nbytes, 1)
        self.host = host
        flags = _FLAGS.READ_WRITE | (_FLAGS.SVM_FINE_GRAIN_BUFFER if host else 0)
        with translated(f"buffer of {nbytes} bytes", uri):
            self._shared: _Shared | None = _Shared(context, self.nbytes, flags)
        self.address: int = self._shared.svm.svm_ptr

    def view(self, nbytes: int) -> Any:
        """The first bytes for the host, writable; it keeps the memory."""
        return np.asarray(Bytes(self.address, nbytes, self._shared))

    def drop(self) -> Any:
        """Let go of it; views keep it. Returns the last reference, for who must leak it."""
        shared, self._shared = self._shared, None
        return shared


class Bytes:
    """Memory at an address as numpy takes it; who holds the array holds `owner`."""

    def __init__(self, address: int, nbytes: int, owner: object) -> None:
        self.__array_interface__ = {
            "version": 3, "shape": (nbytes,), "typestr": "|u1", "data": (address, False),
        }  # fmt: skip
        self.owner = owner


def zero(block: Block) -> None:
    """Zeroes memory that the host may touch."""
    ctypes.memset(block.address, 0, block.nbytes)


def move(dst: int, src: int, nbytes: int) -> None:
    """Copies bytes within the host's reach."""
    ctypes.memmove(dst, src, nbytes)


def address_of(data: memoryview) -> int:
    """Where the bytes of a contiguous memoryview are."""
    return int(np.frombuffer(data, np.uint8).__array_interface__["data"][0])


def pointer(address: int, nbytes: int) -> Any:
    """An address as pyopencl takes it. Nothing is kept alive: sparkle_drv does that."""
    return cl.SVM(np.asarray(Bytes(address, nbytes, None)))


def total(info: sp.DeviceInfo, device: Any, nbytes: int, taken: int) -> None:
    """Raises OutOfDeviceMemory for what cannot fit: drivers on a CPU would give it, and fail
    later."""
    if nbytes + taken > info.memory_nbytes or nbytes > device.max_mem_alloc_size:
        raise sp.OutOfDeviceMemory(
            f"{info.uri}: {nbytes} bytes asked for and {taken} taken; the device has "
            f"{info.memory_nbytes}, {device.max_mem_alloc_size} of them for one buffer"
        )
