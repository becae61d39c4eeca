"""The addresses of a submission, for C programs that measure its cost without Python."""

from __future__ import annotations

from typing import Any, NamedTuple

from sparkle_drv._emu import ffi as emu_ffi
from sparkle_drv._emu import lib as emu_lib
from sparkle_drv._native import ffi, lib
from sparkle_drv.core.commands import Commands
from sparkle_drv.core.queue import Queue


class Calls(NamedTuple):
    """Addresses of the functions sp_amdgpu_resend (`resend`), sp_amdgpu_submit (`submit`),
    sp_amdgpu_wait (`wait`) and sp_emu_seam (`seam`). `queue`, `records`, `nbytes` and `epoch` are
    the arguments that `Queue.submit` passes to `resend` and `submit`. `kept` owns the memory at
    `records`: all addresses are valid while it and the queue exist.
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
    """Returns the Calls of `queue.submit(commands)` on an emulated card. Raises what `submit`
    raises.
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
