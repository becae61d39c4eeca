"""Command records of an untrusted client. The node looks up every pointer, kernel and queue of a
record in the session. Core then makes a new record, and so checks sizes, shapes and limits as for a
local caller.

All errors are raised before anything is submitted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from sparkle_drv import plugin
from sparkle_drv.cluster.node.faults import OutsideMemory
from sparkle_drv.cluster.node.tables import Allocations, Launch, Tables
from sparkle_drv.core.commands import Commands
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.queue import Queue
from sparkle_drv.core.timestamp import Timestamp

WaitFor = Callable[[int, int], Fence | None]
"""(queue number, the client's value) -> the fence to wait for, or None if there is nothing to wait
for. Raises ValueError for a value that was not submitted."""


def decode(records: bytes) -> list[plugin.Command]:
    """Decodes the bytes of command records into commands. Raises ValueError for other bytes."""
    try:
        return [command for _, command in plugin.decode(records)]
    except struct.error as error:
        raise ValueError(f"records: expected whole records, got one cut short: {error}") from None


def launch_of(tables: Tables, dispatch: plugin.Dispatch) -> Launch:
    """Returns the launch of a dispatch record, with the session's kernel and memory. Raises
    ValueError if the session has no such kernel, or for arguments of a wrong size. Raises
    OutsideMemory for addresses that are unaligned or outside the session's memory.
    """
    kernel = tables.kernel(dispatch.kernel)
    signature, packed = kernel.signature, dispatch.args
    expected = signature.args_nbytes + 8 * signature.npointers
    if len(packed) != expected:
        raise ValueError(
            f"{kernel.name}: expected {expected} bytes of arguments, got {len(packed)}"
        )
    covered = iter(struct.unpack_from(f"={signature.npointers}Q", packed, signature.args_nbytes))
    values = signature.args_struct.unpack_from(packed)
    args: list[Any] = []
    for arg, value in zip(signature.args, values, strict=True):
        if not arg.is_pointer:
            args.append(value)
            continue
        what = f"{kernel.name}: argument {arg.name}"
        if value % arg.element_nbytes:
            raise OutsideMemory(
                f"{what}: expected an address aligned for {arg.type}, got {value:#x}"
            )
        args.append(tables.memory.at(what, value, next(covered)))
    return Launch(kernel, tuple(args), dispatch.groups, dispatch.group_size, dispatch.shared_nbytes)


def checked(launch: Launch) -> Launch:
    """Returns `launch` if core accepts it. Raises what Queue.launch raises."""
    Commands().dispatch(
        launch.kernel, *launch.args, groups=launch.groups, group_size=launch.group_size,
        shared=launch.shared,
    )  # fmt: skip
    return launch


def submit(tables: Tables, queue: Queue, records: bytes, wait_for: WaitFor) -> Fence:
    """Looks up and checks all records, then submits them as one submission. If a record is wrong,
    this function raises before anything is submitted.
    """
    commands = decode(records)
    if len(commands) == 1 and isinstance(commands[0], plugin.Dispatch):
        one = launch_of(tables, commands[0])
        return queue.launch(
            one.kernel, *one.args, groups=one.groups, group_size=one.group_size, shared=one.shared
        )
    listed = Commands()
    for command in commands:
        _record(listed, tables, command, wait_for)
    return queue.submit(listed)


def _record(listed: Commands, tables: Tables, command: plugin.Command, wait_for: WaitFor) -> None:
    memory = tables.memory
    match command:
        case plugin.Dispatch():
            one = launch_of(tables, command)
            listed.dispatch(
                one.kernel, *one.args, groups=one.groups, group_size=one.group_size,
                shared=one.shared,
            )  # fmt: skip
        case plugin.Copy(dst, src, nbytes):
            listed.copy(
                memory.span("copy: dst", dst, nbytes), memory.span("copy: src", src, nbytes)
            )
        case plugin.Fill(dst, nbytes, pattern):
            into = memory.span("fill: dst", dst, nbytes)
            listed.fill(into, int.from_bytes(pattern, "little"), len(pattern))
        case plugin.Barrier():
            listed.barrier()
        case plugin.Wait(number, value):
            fence = wait_for(number, value)
            if fence is not None:
                listed.wait(fence)
        case plugin.Timestamp(slot):
            listed.timestamp(Timestamp(_slot(memory, slot)))


def _slot(memory: Allocations, address: int) -> Any:
    if address % 8:
        raise OutsideMemory(f"timestamp: expected a multiple of 8 as address, got {address:#x}")
    return memory.span("timestamp", address, 8)
