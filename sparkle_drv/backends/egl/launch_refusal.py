"""Explains why native/egl/run/check.c refused a dispatch record.

Core calls this module only if core/launch_errors.py has found no error in the arguments and the
grid. Thus a limit of the device or of the shader was broken.
"""

from __future__ import annotations

import errno
import struct
from typing import Any

from sparkle_drv._native import ffi, lib

_HEAD = struct.Struct("=IIQ8I")  # the head of struct sp_cmd_dispatch


def words(limits: Any, record: bytes, rc: int) -> str:
    """Returns why the record was refused, or "" if the record shows no reason. `limits` is a struct
    sp_egl_info.
    """
    if len(record) < _HEAD.size:
        return ""
    _, _, pointer, *rest = _HEAD.unpack_from(record)
    groups, size, shared = rest[0:3], rest[3:6], rest[6]
    shape = ffi.new("struct sp_egl_shape *")
    lib.sp_egl_kernel_shape(ffi.cast("struct sp_egl_kernel *", pointer), shape)
    own = tuple(shape.group_size)
    if tuple(size) != own:
        return f"group_size: expected {own}, which the shader is compiled for, got {tuple(size)}"
    if shared:
        return f"shared: expected 0, since a shader declares its shared memory, got {shared} bytes"
    most = tuple(limits.max_groups)
    if rc == -errno.E2BIG:
        for axis, n, limit in zip("xyz", groups, most, strict=True):
            if n > limit and not shape.any_grid:
                return f"groups: {n} in {axis}; at most {limit} are possible for this shader"
        return f"groups: {tuple(groups)} are too many to be split into dispatches"
    if rc == -errno.EFBIG:
        return (
            f"a buffer is longer than the {limits.max_block_nbytes} bytes that one pointer can "
            "reach on this device; pass a view of the part that is used"
        )
    if rc == -errno.EADDRNOTAVAIL:
        return (
            "a view starts at an offset that cannot be bound: multiples of "
            f"{limits.offset_alignment} bytes can"
        )
    return ""
