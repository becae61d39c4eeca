"""What a C program needs to repeat a submission, and so to measure its cost without Python."""

from __future__ import annotations

from typing import Any, NamedTuple

from sparkle_drv._emu import ffi as emu_ffi
from sparkle_drv._emu import lib as emu_lib
from sparkle_drv._native import ffi, lib

from sparkle_drv.core.commands import Commands
from sparkle_drv.core.queue import Queue


class Calls(NamedTuple):
    """The addresses of the functions that submit and wait, and the arguments of a submission.

    `resend`, `submit`, `wait` and `seam` are the addresses of sp_amdgpu_resend, sp_amdgpu_submit,
    sp_amdgpu_wait and sp_emu_seam. `queue`, `records`, `nbytes` and `epoch` are the arguments that
    `Queue.submit` passes to the first two. `kept` owns the memory at `records`. The addresses are
    valid as long as `kept` and the queue exist.
    """

    resend: int
    submit: int
    wait: int
    seam: int
    queue: int
    records: int
    nbytes: int
    epoch: int
    kept: Any


def of_submission(queue: Queue, commands: Commands) -> Calls:
    """Returns the C functions and arguments by which `queue.submit(commands)` submits to an
    emulated card. Raises what `submit` raises.
    """
    records, nbytes, epoch = commands._encode(queue.device)

    def address(of: Any) -> int:
        return int(ffi.cast("uintptr_t", of))

    return Calls(
        address(ffi.addressof(lib, "sp_amdgpu_resend")),
        address(ffi.addressof(lib, "sp_amdgpu_submit")),
        address(ffi.addressof(lib, "sp_amdgpu_wait")),
        int(emu_ffi.cast("uintptr_t", emu_ffi.addressof(emu_lib, "sp_emu_seam"))),
        address(queue._handle),
        address(records),
        nbytes,
        epoch,
        (records, commands),
    )
