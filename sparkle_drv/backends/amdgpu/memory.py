"""Memory of the amdgpu device for core: handles that free their memory, and host views that keep
their memory alive.
"""

from __future__ import annotations

import errno
from typing import Any

from sparkle_drv._native import ffi, lib
from sparkle_drv.backends.base import Allocation
from sparkle_drv.errors import check

KINDS = {"device": lib.SP_AMDGPU_DEVICE, "host": lib.SP_AMDGPU_HOST, "shared": lib.SP_AMDGPU_SHARED}


class MemoryHandle:
    """Owns a `struct sp_amdgpu_memory`. `owner` is the object whose memory is wrapped, if any."""

    __slots__ = ("owner", "pointer")

    def __init__(self, pointer: Any, owner: object = None) -> None:
        self.pointer, self.owner = ffi.gc(pointer, lib.sp_amdgpu_free), owner

    def allocation(self) -> Allocation:
        return Allocation(self, lib.sp_amdgpu_address(self.pointer))

    def map(self, nbytes: int, uri: str) -> Any:
        """Returns a writable view that keeps the memory alive. Raises ValueError if the CPU cannot
        reach the memory.
        """
        out = ffi.new("void **")
        rc = lib.sp_amdgpu_view(self.pointer, out)
        if rc == -errno.EOPNOTSUPP:
            raise ValueError(
                f"map: expected memory that the CPU reaches, got other memory of {uri}; use "
                "Memory.HOST, read and write"
            )
        check(rc, "map", uri)
        held, owner = self.pointer, self.owner

        def let_go(_: Any, owner: object = owner) -> None:
            lib.sp_amdgpu_unview(held)

        return ffi.buffer(ffi.gc(ffi.cast("char *", out[0]), let_go), nbytes)

    def drop(self) -> None:
        """Frees the handle now. The memory itself stays as long as a view of it exists."""
        pointer, self.pointer = self.pointer, None
        if pointer is not None:
            ffi.release(pointer)
        # `owner` keeps the host memory alive. It is dropped last, because the driver locks the
        # pages of that memory until the handle is freed.
        self.owner = None
