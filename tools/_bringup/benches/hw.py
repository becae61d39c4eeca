"""Short names for the raw layer that rungs use (sparkle_drv.lowlevel's raw and raw_gpu)."""

from __future__ import annotations

from sparkle_drv.lowlevel import raw, raw_gpu

ffi = raw.ffi
lib = raw.lib
pointer = raw.pointer
Buffer = raw_gpu.BufferObject
Gpu = raw_gpu.Gpu
Job = raw_gpu.Job
Late = raw_gpu.Late
IP = raw_gpu.IP
NOP = raw_gpu.NOP

STATES = {
    raw.lib.AMDGPU_CTX_QUERY2_FLAGS_RESET: "RESET",
    raw.lib.AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST: "VRAMLOST",
    raw.lib.AMDGPU_CTX_QUERY2_FLAGS_GUILTY: "GUILTY",
    raw.lib.AMDGPU_CTX_QUERY2_FLAGS_RAS_CE: "RAS_CE",
    raw.lib.AMDGPU_CTX_QUERY2_FLAGS_RAS_UE: "RAS_UE",
    raw.lib.AMDGPU_CTX_QUERY2_FLAGS_RESET_IN_PROGRESS: "RESET_IN_PROGRESS",
}


def state_words(flags: int) -> str:
    """Returns QUERY_STATE2's flags by name."""
    return "|".join(name for bit, name in STATES.items() if flags & bit) or "0"
