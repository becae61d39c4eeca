"""A submission in flight, in words: what `FenceTimeout` carries and `Queue.describe` returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparkle_drv.backends.base import Progress
from sparkle_drv.core import records

if TYPE_CHECKING:
    from sparkle_drv.core.device import Device


def describe(device: Device, progress: Progress) -> str:
    """A submission in words: each command with its arguments, and the one that runs."""
    lines: list[str] = []
    for at, kind, record in records.split(progress.records):
        text = (
            _dispatch_text(device, record)
            if kind == records.DISPATCH
            else records.decode(kind, record)
        )
        mark = "  "
        if at == progress.running_at:
            mark = "> "
            text += f" -- running for {progress.running_s:.3f} s"
            if progress.groups_total:
                text += f", {progress.groups_done} of {progress.groups_total} groups done"
        lines.append(f"{mark}{len(lines)}: {text}")
    state = "" if any(line.startswith(">") for line in lines) else " (not begun)"
    return f"submission of {len(lines)} command(s){state}:\n" + "\n".join(lines)


def _dispatch_text(device: Device, record: bytes) -> str:
    head: Sequence[int] = records.DISPATCH_HEAD.unpack_from(record)
    kernel = device._kernel_at(head[2])
    shape = f"groups {tuple(head[3:6])} of {tuple(head[6:9])}"
    if kernel is None:
        return f"dispatch of the kernel at {head[2]:#x}, {shape}"
    values = kernel.signature.args_struct.unpack_from(record, records.DISPATCH_HEAD.size)
    named = ", ".join(
        f"{a.name}={v:#x}" if a.is_pointer else f"{a.name}={v}"
        for a, v in zip(kernel.args, values, strict=True)
    )
    return f"dispatch {kernel.name}({named}), {shape}"
