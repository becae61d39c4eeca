"""Explains why native/cuda/records/check.c refused a dispatch record."""

from __future__ import annotations

import errno
from typing import Any

from sparkle_drv._native import ffi, lib


def words(limits: Any, record: bytes, rc: int) -> str:
    """Returns why the record was refused, or "" if the reason is not specific to cuda. `limits` is
    a struct sp_cuda_info.
    """
    kept = ffi.from_buffer(record)
    d = ffi.cast("struct sp_cmd_dispatch *", kept)
    if len(record) < ffi.sizeof("struct sp_cmd_dispatch") or not d.kernel:
        return ""
    shape = ffi.new("struct sp_cuda_shape *")
    lib.sp_cuda_kernel_shape(ffi.cast("struct sp_cuda_kernel *", d.kernel), shape)
    for axis, n, most in zip("xyz", d.group_size, limits.max_group, strict=True):
        if n > most:
            return f"group_size: {n} in {axis}; at most {most} are possible"
    if rc == -errno.E2BIG and shape.shared_nbytes + d.shared_nbytes > limits.plain_shared_nbytes:
        return (
            f"shared: {d.shared_nbytes} bytes and the kernel's own {shape.shared_nbytes} are more "
            f"than a workgroup can have of the {limits.shared_nbytes}"
        )
    if rc == -errno.E2BIG:
        return (
            f"group_size: {tuple(d.group_size)} of a kernel with {shape.registers} registers a "
            "thread is more than a multiprocessor has room for"
        )
    return ""
