"""Calls the ioctls of one open render node: for bring-up, where each call must be visible.

    with DrmNode(ops, fd) as node:
        info = node.info("DEV_INFO", "struct drm_amdgpu_info_device")

The calls go through the seam (`struct sp_kmd_ops`), to a real or an emulated card. A failed call
raises an IoctlError that names the call and its arguments. gpu.py submits work.
"""

from __future__ import annotations

import errno
import os
import time
from typing import Any

from sparkle_drv._native import ffi, lib
from sparkle_drv.errors import leave

RETRY_S = 10.0  # seconds for which an interrupted ioctl is repeated

__all__ = ["DrmNode", "IoctlError", "ffi", "lib", "linux", "open_path", "pointer"]


class IoctlError(OSError):
    """An ioctl (or mmap) of a render node failed. `call` is its name, `errno` the error."""

    def __init__(self, code: int, call: str, detail: str = "") -> None:
        name = errno.errorcode.get(code, str(code))
        said = f"{call}{' ' + detail if detail else ''}: {name} ({os.strerror(code)})"
        super().__init__(code, said)
        self.call = call

    def __str__(self) -> str:
        return str(self.strerror)


def check(rc: int, call: str, detail: str = "") -> int:
    """Returns the result `rc` of a call. Raises IoctlError if `rc` is negative."""
    if rc < 0:
        raise IoctlError(-rc, call, detail)
    return rc


def pointer(data: Any) -> int:
    """Returns the address of cffi data, in the form that ioctls take."""
    return int(ffi.cast("uintptr_t", data))


def linux() -> Any:
    """Returns the `struct sp_kmd_ops *` that calls the real kernel driver."""
    return lib.sp_kmd_linux()


def open_path(path: str | os.PathLike[str]) -> int:
    """Opens a render node and returns the descriptor, which the caller owns. Raises IoctlError with
    the call "open".
    """
    return check(lib.sp_amdgpu_open_node(os.fsencode(path)), "open", os.fspath(path))


class DrmNode:
    """A render node: the calls `ops` of the seam, and a descriptor that this object owns."""

    def __init__(self, ops: Any, fd: int) -> None:
        self.ops, self.fd = ops, fd
        self.last = ""  # name of the newest ioctl

    def close(self) -> None:
        """Closes the descriptor. A remaining mapping keeps the node open in the kernel driver."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            check(self.ops.close(self.ops.self, fd), "close")

    def __enter__(self) -> DrmNode:
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        leave(self.close, error)

    def ioctl(self, name: str, arg: Any, *, timeout_s: float = RETRY_S) -> Any:
        """Calls DRM_IOCTL_`name` and returns `arg`. Repeats the call after EINTR and EAGAIN, for
        `timeout_s` at most. Raises IoctlError if the call fails.
        """
        request = getattr(lib, f"DRM_IOCTL_{name}")
        deadline = time.monotonic_ns() + int(timeout_s * 1e9)
        self.last = name
        rc = lib.sp_kmd_ioctl(self.ops, self.fd, request, arg, deadline)
        if rc < 0:
            raise IoctlError(-rc, name, _set_fields(arg))
        return arg

    def call(self, name: str, ctype: str, **fields: object) -> Any:
        """Calls an ioctl with a new struct `ctype` that has these fields. If `ctype` is a union,
        sets the fields of its member `in`. Returns the struct.
        """
        arg = ffi.new(f"{ctype} *")
        target = getattr(arg, "in") if ctype.startswith("union") else arg
        for field, value in fields.items():
            setattr(target, field, value)
        return self.ioctl(name, arg)

    def info(self, query: str, ctype: str, **fields: object) -> Any:
        """Calls the ioctl INFO and returns the answer as a new `ctype`. Fields that an older Linux
        lacks are zero. A keyword MEMBER__FIELD sets the field FIELD of the ioctl argument's member
        MEMBER. An IoctlError has the name AMDGPU_INFO_`query`.
        """
        out = ffi.new(f"{ctype} *") if "[" not in ctype else ffi.new(ctype)
        arg = ffi.new("struct drm_amdgpu_info *")
        arg.return_pointer = pointer(out)
        arg.return_size = ffi.sizeof(ctype)
        arg.query = getattr(lib, f"AMDGPU_INFO_{query}")
        for name, value in fields.items():
            kind, _, field = name.partition("__")
            setattr(getattr(arg, kind), field, value)
        try:
            self.ioctl("AMDGPU_INFO", arg)
        except IoctlError as error:
            raise IoctlError(error.errno or 0, f"AMDGPU_INFO_{query}", _set_fields(arg)) from None
        return out if "[" in ctype else out[0]

    def version(self) -> tuple[str, int, int, int, str]:
        """Returns the driver's name, major, minor, patch level and description, by the ioctl
        VERSION.
        """
        name, date, description = (ffi.new("char[]", 128) for _ in range(3))
        arg = ffi.new("struct drm_version *")
        arg.name, arg.date, arg.desc = name, date, description
        arg.name_len = arg.date_len = arg.desc_len = 127
        self.ioctl("VERSION", arg)
        words = [bytes(ffi.string(text)).decode(errors="replace") for text in (name, description)]
        return words[0], arg.version_major, arg.version_minor, arg.version_patchlevel, words[1]

    def cap(self, name: str) -> int:
        """Returns the capability DRM_CAP_`name`, by the ioctl GET_CAP."""
        capability = getattr(lib, f"DRM_CAP_{name}")
        return int(self.call("GET_CAP", "struct drm_get_cap", capability=capability).value)

    def mmap(self, nbytes: int, offset: int) -> Any:
        """Maps `nbytes` bytes at `offset` of the device file, shared and writable. Returns them as
        a cffi buffer, which is valid until `munmap`.
        """
        address = self.ops.mmap(self.ops.self, nbytes, 3, 1, self.fd, offset)
        if address < 0:
            raise IoctlError(int(-address), "mmap", f"nbytes={nbytes}")
        return ffi.buffer(ffi.cast("void *", address), nbytes)

    def munmap(self, view: Any) -> None:
        """Ends a mapping that `mmap` returned."""
        check(self.ops.munmap(self.ops.self, ffi.from_buffer(view), len(view)), "munmap")


# Fields that messages leave out, because addresses in this process and lengths tell a reader
# nothing.
_QUIET = (
    "chunks",
    "handles",
    "points",
    "fences",
    "name_len",
    "date_len",
    "desc_len",
    "return_pointer",
)


def _set_fields(arg: Any) -> str:
    """Returns the plain fields of an argument that are set, for messages: "op=1 flags=0x4"."""
    kind = ffi.typeof(arg).item
    target = getattr(arg, "in", arg)
    fields = (ffi.typeof(target) if kind.kind == "union" else kind).fields or ()
    words = []
    for name, field in fields:
        value = getattr(target, name, None)
        if (
            field.type.kind == "primitive"
            and isinstance(value, int)
            and value
            and name not in _QUIET
        ):
            words.append(f"{name}={value:#x}" if abs(value) > 9 else f"{name}={value}")
    return " ".join(words)
