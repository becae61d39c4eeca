"""Why native code did not take a dispatch record, in words (native/amdgpu/submit/check.c)."""

from __future__ import annotations

import errno

from sparkle_drv._native import ffi, lib


def words(record: bytes, rc: int) -> str:
    """ "" when it is nothing that only this backend knows."""
    kept = ffi.from_buffer(record)
    d = ffi.cast("struct sp_cmd_dispatch *", kept)
    made = ffi.new("struct sp_amdgpu_template *")
    if len(record) < ffi.sizeof("struct sp_cmd_dispatch") or not d.kernel:
        return ""
    if lib.sp_amdgpu_template_of(ffi.cast("struct sp_amdgpu_kernel *", d.kernel), made):
        return ""
    size, wanted = tuple(d.group_size), tuple(made.required_size)
    if rc == -errno.EINVAL and wanted[0] and size != wanted:
        return f"group_size: it is compiled for {wanted} only, got {size}"
    if rc == -errno.E2BIG and made.lds_nbytes + d.shared_nbytes > 65536:
        return (
            f"shared: {d.shared_nbytes} bytes and the kernel's own {made.lds_nbytes} are more "
            "than the 65536 of a workgroup"
        )
    if rc == -errno.E2BIG:
        return f"groups: {tuple(d.groups)} of {size} are more than can be cut into jobs"
    return ""
