"""Describes a submission in flight in words, for `FenceTimeout` and `Queue.describe`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparkle_drv.backends.base import Progress
from sparkle_drv.core.abi import records

if TYPE_CHECKING:
    from sparkle_drv.core.device import Device


_AROUND = 8  # number of commands shown on each side of the running one


def describe(device: Device, progress: Progress) -> str:
    """Returns a submission as text: the running command and those around it, with arguments."""
    commands = list(records.split(progress.records))
    running = next((i for i, c in enumerate(commands) if c[0] == progress.running_at), None)
    first = max(0, (running or 0) - _AROUND)
    shown = commands[first : (running or 0) + _AROUND + 1]
    after = len(commands) - first - len(shown)
    lines = [
        f"submission of {len(commands)} command(s){'' if running is not None else ' (not begun)'}:"
    ]
    lines += [f"  ... {first} before"] * (first > 0)
    for i, (_, kind, record) in enumerate(shown, first):
        dispatch = kind == records.DISPATCH
        text = _dispatch_text(device, record) if dispatch else records.decode(kind, record)
        lines.append(f"> {i}: {text}{_running(progress)}" if i == running else f"  {i}: {text}")
    lines += [f"  ... {after} after"] * (after > 0)
    return "\n".join(lines)


def _running(progress: Progress) -> str:
    text = f" -- running for {progress.running_s:.3f} s"
    if progress.groups_total:
        text += f", {progress.groups_done} of {progress.groups_total} groups done"
    return text


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
