"""Applies a plan of faults (faults.py) to an emulated card."""

from __future__ import annotations

import errno
from typing import Any

from .._emu import ffi, lib
from ..amd.kmd.gpu import one_of
from .emulated_options import RECOVERY, words
from .emulator import Machine, check
from .faults import Fault, Schedule

__all__ = ["apply", "happened"]

ACTIONS = {k: v for k, v in words("sp_emu_action", "SP_EMU_DO_").items() if v < lib.SP_EMU_ACTIONS}
_WORDS = {"pagefault": "fault"}  # words of faults.py whose name in the C enum differs

# For each kind of call that a fault can hit ("submit"), the DRM_IOCTL_ names of its ioctls.
_CALLS = {
    "alloc": ("AMDGPU_GEM_CREATE", "AMDGPU_GEM_USERPTR", "PRIME_FD_TO_HANDLE"),
    "map": ("AMDGPU_GEM_VA", "AMDGPU_GEM_MMAP"),
    "submit": ("AMDGPU_CS",),
    "wait": ("AMDGPU_WAIT_CS", "AMDGPU_WAIT_FENCES", "SYNCOBJ_WAIT", "SYNCOBJ_TIMELINE_WAIT"),
    "context": ("AMDGPU_CTX", "SYNCOBJ_CREATE"),
}  # fmt: skip


def _numbers(call: str) -> list[int]:
    if call == "any":
        return [2**64 - 1] * 4
    mask = 0
    for name in _CALLS[call]:
        mask |= 1 << (getattr(lib, f"DRM_IOCTL_{name}") & 0xFF)
    return [mask >> 64 * i & (2**64 - 1) for i in range(4)]


def _planned(fault: Fault) -> Any:
    planned = ffi.new("struct sp_emu_planned *")
    p = fault.parameters
    planned.action = ACTIONS[_WORDS.get(fault.what, fault.what)]
    planned.of_jobs = fault.on == "job"
    planned.at = fault.at
    planned.count = p.get("count", 1)
    if fault.on != "job":
        planned.nrs = _numbers(fault.on)
    match fault.what:
        case "fail":
            planned.value = getattr(errno, str(p["error"]))
        case "hang":
            planned.value = RECOVERY[one_of("recovery", p["recovery"], RECOVERY)]
        case "corrupt":
            planned.value, planned.seed = p["mask"], p["seed"]
        case "reset":
            planned.value = p["vram_lost"]
        case "pagefault":
            planned.value = p["va"]
        case "slow":
            planned.value = p["factor"]
    return planned


def apply(schedule: Schedule, machine: Machine, card: int = 0) -> None:
    """Adds the plan to the card's earlier plans, which stay in force. The new plan counts jobs and
    ioctls from now on.
    """
    for fault in schedule:
        check(lib.sp_emu_plan(machine.handle, card, _planned(fault)), "sp_emu_plan")


def happened(machine: Machine, card: int = 0) -> dict[str, int]:
    """Returns how often each kind of fault has happened on a card, by the words of faults.py. A
    corruption counts only if a byte changed.
    """
    counts = ffi.new("uint64_t[]", lib.SP_EMU_ACTIONS)
    check(lib.sp_emu_plan_done(machine.handle, card, counts), "sp_emu_plan_done")
    back = {v: k for k, v in _WORDS.items()}
    return {back.get(word, word): counts[action] for word, action in ACTIONS.items()}
