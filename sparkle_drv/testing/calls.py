"""A submission as addresses, for C programs that measure its cost without Python."""

from __future__ import annotations

from typing import Any, NamedTuple

from sparkle_drv._emu import ffi as emu_ffi
from sparkle_drv._emu import lib as emu_lib
from sparkle_drv._native import ffi, lib
from sparkle_drv.core.commands import Commands
from sparkle_drv.core.queue import Queue


class Calls(NamedTuple):
    """Addresses of functions (`resend` sp_amdgpu_resend, `submit` sp_amdgpu_submit, `wait`
    sp_amdgpu_wait, `seam` sp_emu_seam), and the arguments that `Queue.submit` passes to the first
    two. Valid while `kept` and the queue exist."""

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
    """The Calls of `queue.submit(commands)` on an emulated card. Raises as that."""
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
