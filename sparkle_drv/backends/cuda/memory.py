"""Memory of the cuda device for core: handles that free their memory, and host views that keep
their memory alive.
"""

from __future__ import annotations

from typing import Any

from sparkle_drv._native import ffi, lib
from sparkle_drv.backends.base import Allocation
from sparkle_drv.types import Memory

KINDS = {"device": lib.SP_CUDA_DEVICE, "host": lib.SP_CUDA_HOST, "shared": lib.SP_CUDA_SHARED}


class MemoryHandle:
    """Owns a `struct sp_cuda_memory`. `owner` is the object whose memory is wrapped, if any."""

    __slots__ = ("owner", "pointer")

    def __init__(self, pointer: Any, owner: object = None) -> None:
        self.pointer, self.owner = ffi.gc(pointer, lib.sp_cuda_free), owner

    def allocation(self, memory: Memory | None = None) -> Allocation:
        return Allocation(self, lib.sp_cuda_address(self.pointer), memory)

    def map(self, nbytes: int, uri: str) -> Any:
        """Returns a writable view that keeps the memory alive. Raises ValueError if the host cannot
        reach the memory.
        """
        host = lib.sp_cuda_host(self.pointer)
        if host == ffi.NULL:
            raise ValueError(
                f"map: the host does not reach memory of {uri}; use Memory.HOST, read and write"
            )
        pointer, owner = self.pointer, self.owner
        lib.sp_cuda_hold(pointer)

        def let_go(_: Any, owner: object = owner) -> None:
            lib.sp_cuda_free(pointer)

        return ffi.buffer(ffi.gc(ffi.cast("char *", host), let_go), nbytes)

    def drop(self) -> None:
        """Frees the handle now. The memory itself stays as long as a view of it exists."""
        pointer, self.pointer = self.pointer, None
        if pointer is not None:
            ffi.release(pointer)
        # `owner` keeps the host memory alive. It is dropped last, because the driver locks the
        # pages of that memory until the handle is freed.
        self.owner = None
