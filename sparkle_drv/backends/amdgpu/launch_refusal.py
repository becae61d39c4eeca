"""Explains why native code refused a dispatch record (native/amdgpu/submit/check.c)."""

from __future__ import annotations

import errno
from typing import Any

from sparkle_drv._native import ffi, lib
from sparkle_drv.amd.tables import regs

_W32 = regs.COMPUTE_DISPATCH_INITIATOR.encode(CS_W32_EN=1)


def words(record: bytes, rc: int, engines: int) -> str:
    """Returns why the record was refused, or "" if the reason is not specific to amdgpu. `engines`
    is the number of shader engines.
    """
    kept = ffi.from_buffer(record)
    d = ffi.cast("struct sp_cmd_dispatch *", kept)
    template = ffi.new("struct sp_amdgpu_template *")
    if len(record) < ffi.sizeof("struct sp_cmd_dispatch") or not d.kernel:
        return ""
    if lib.sp_amdgpu_template_of(ffi.cast("struct sp_amdgpu_kernel *", d.kernel), template):
        return ""
    size, wanted = tuple(d.group_size), tuple(template.required_size)
    if rc == -errno.EINVAL and wanted[0] and size != wanted:
        return f"group_size: expected {wanted}, which it is compiled for, got {size}"
    if rc == -errno.E2BIG and template.lds_nbytes + d.shared_nbytes > 65536:
        return (
            f"shared: {d.shared_nbytes} bytes and the kernel's own {template.lds_nbytes} are more "
            "than the 65536 of a workgroup"
        )
    if rc == -errno.E2BIG and (says := _scratch(d, template, engines)):
        return says
    if rc == -errno.E2BIG:
        return f"groups: {tuple(d.groups)} of {size} are more than can be cut into jobs"
    return ""


def _scratch(d: Any, template: Any, engines: int) -> str:
    """Returns the text of an error if a shader engine has too little scratch memory for the waves
    of one group (submit/scratch.c), otherwise "".
    """
    threads = d.group_size[0] * d.group_size[1] * d.group_size[2]
    lanes = 32 if template.dwords[template.dims_at + 3] & _W32 else 64
    waves, most = -(-threads // lanes), lib.SP_AMDGPU_SCRATCH_MOST // engines
    wave_nbytes = template.scratch_wave_nbytes
    if wave_nbytes * waves <= most:
        return ""
    return (
        f"group_size: {threads} work-items with {wave_nbytes // lanes} bytes of private memory "
        f"each are more than the {most} bytes of a shader engine; groups of up to "
        f"{most // wave_nbytes * lanes} work-items fit, or {most // waves // lanes} bytes each"
    )
