"""Decodes command records (native/include/sp_cmd.h) to dataclasses, for backends in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkle_drv.core.abi import records


@dataclass(frozen=True)
class Dispatch:
    """A command: run a kernel.

    >>> plugin.Dispatch(1, (4, 1, 1), (256, 1, 1), shared_nbytes=0, args=b"").groups
    (4, 1, 1)
    """

    kernel: int
    """The kernel's `Loaded.pointer`."""
    groups: tuple[int, int, int]
    """Workgroups along x, y, z; nothing runs if one of them is 0."""
    group_size: tuple[int, int, int]
    """Threads of a workgroup along x, y, z."""
    shared_nbytes: int
    """`shared=` of the launch, in bytes."""
    args: bytes
    """The arguments, packed as in C; then, per pointer, the bytes of memory behind it."""


@dataclass(frozen=True)
class Copy:
    """A command: copy `nbytes` bytes; source and destination may overlap.

    >>> plugin.Copy(dst=0x2000, src=0x1000, nbytes=64).nbytes
    64
    """

    dst: int
    src: int
    nbytes: int


@dataclass(frozen=True)
class Fill:
    """A command: fill `nbytes` bytes with `pattern`, whose length 1, 2 or 4 divides `nbytes`.

    >>> plugin.Fill(dst=0x1000, nbytes=64, pattern=b"\\0").nbytes
    64
    """

    dst: int
    nbytes: int
    pattern: bytes


@dataclass(frozen=True)
class Barrier:
    """A command: later commands see the results of earlier commands.

    A backend that runs the commands of a list in order may ignore barriers.

    >>> plugin.Barrier()
    Barrier()
    """


@dataclass(frozen=True)
class Wait:
    """A command: wait until another queue of the device has reached `value`.

    >>> plugin.Wait(queue=1, value=3).value
    3
    """

    queue: int
    """The `queue_pointer` of the other queue."""
    value: int


@dataclass(frozen=True)
class Timestamp:
    """A command: store the device clock, in ns, to the 8 bytes at `slot`.

    >>> plugin.Timestamp(slot=0x1000).slot
    4096
    """

    slot: int


Command = Dispatch | Copy | Fill | Barrier | Wait | Timestamp


class Given(list[Command]):
    """The commands of one submission, in order.

    >>> from sparkle_drv.plugin import records
    >>> data = records.copy(0x2000, 0x1000, 64)
    >>> given = plugin.Given(data, plugin.decode(data))
    >>> [type(command).__name__ for command in given]
    ['Copy']
    """

    __slots__ = ("__weakref__", "data", "kept", "offsets", "prepared", "waits")

    def __init__(self, data: bytes, decoded: list[tuple[int, Command]]) -> None:
        super().__init__(command for _, command in decoded)
        self.data = data
        """The records as bytes."""
        self.offsets = [at for at, _ in decoded]
        """Offset of each record in bytes."""
        self.waits = [command for command in self if isinstance(command, Wait)]
        self.prepared = False
        """True for a prepared submission; each run then passes this same object."""
        self.kept: Any = None
        """An object that the backend may keep here for a prepared submission."""


def decode(data: bytes) -> list[tuple[int, Command]]:
    """Returns (offset in bytes, command) of each record. Raises ValueError for other bytes.

    >>> from sparkle_drv.plugin import records
    >>> plugin.decode(records.copy(0x2000, 0x1000, 64))
    [(0, Copy(dst=8192, src=4096, nbytes=64))]
    >>> plugin.decode(b"x")
    Traceback (most recent call last):
        ...
    ValueError: records: expected whole records, got 1 bytes, with no whole record at offset 0
    """
    commands: list[tuple[int, Command]] = []
    end = 0
    for at, kind, record in records.split(data):
        commands.append((at, _command(kind, record)))
        end = at + len(record)
    if end != len(data):
        raise ValueError(
            f"records: expected whole records, got {len(data)} bytes, with no whole record "
            f"at offset {end}"
        )
    return commands


def _command(kind: int, record: bytes) -> Command:
    if kind == records.DISPATCH:
        head = records.DISPATCH_HEAD.unpack_from(record)
        _, _, kernel, gx, gy, gz, sx, sy, sz, shared, _ = head
        args = record[records.DISPATCH_HEAD.size :]
        return Dispatch(kernel, (gx, gy, gz), (sx, sy, sz), shared, args)
    fields = records.fields(kind, record)
    if kind == records.COPY:
        return Copy(*fields)
    if kind == records.FILL:
        dst, nbytes, pattern, width = fields
        return Fill(dst, nbytes, pattern.to_bytes(4, "little")[:width])
    if kind == records.WAIT:
        return Wait(*fields)
    return Timestamp(*fields) if kind == records.TIMESTAMP else Barrier()
