"""Command records (native/include/sp_cmd.h) as data, for backends written in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkle_drv.core.abi import records


@dataclass(frozen=True)
class Dispatch:
    """Run a kernel."""

    kernel: int
    """`Loaded.pointer` of it."""
    groups: tuple[int, int, int]
    """Workgroups along x, y, z; one of them may be 0: nothing runs."""
    group_size: tuple[int, int, int]
    """Threads of a workgroup along x, y, z."""
    shared_nbytes: int
    """`shared=` of the launch."""
    args: bytes
    """The arguments, packed as C packs them; then, for each pointer, how many bytes lie behind."""


@dataclass(frozen=True)
class Copy:
    """Copy `nbytes` bytes; the two may overlap."""

    dst: int
    src: int
    nbytes: int


@dataclass(frozen=True)
class Fill:
    """Fill `nbytes` bytes with `pattern`, 1, 2 or 4 bytes that go into them evenly."""

    dst: int
    nbytes: int
    pattern: bytes


@dataclass(frozen=True)
class Barrier:
    """What follows sees what came before: so it is already, where lists run in order."""


@dataclass(frozen=True)
class Wait:
    """Wait until another queue of the device has reached `value`."""

    queue: int
    """What `queue_pointer` gave for it."""
    value: int


@dataclass(frozen=True)
class Timestamp:
    """Store the device clock, in ns, to the 8 bytes at `slot`."""

    slot: int


Command = Dispatch | Copy | Fill | Barrier | Wait | Timestamp


class Given(list[Command]):
    """The commands of one submission, in their order."""

    __slots__ = ("__weakref__", "data", "kept", "offsets", "prepared", "waits")

    def __init__(self, data: bytes, found: list[tuple[int, Command]]) -> None:
        super().__init__(command for _, command in found)
        self.data = data
        """The records."""
        self.offsets = [at for at, _ in found]
        """In bytes, where each begins."""
        self.waits = [command for command in self if isinstance(command, Wait)]
        self.prepared = False
        """Is it given as often as somebody runs it? It is the same object each time."""
        self.kept: Any = None
        """The backend's own, of what was prepared."""

    @staticmethod
    def of(data: bytes) -> Given:
        """As `decode`."""
        return Given(data, decode(data))


def decode(data: bytes) -> list[tuple[int, Command]]:
    """(offset in bytes, command) of each record; ValueError for what is no list of records."""
    found: list[tuple[int, Command]] = []
    end = 0
    for at, kind, record in records.split(data):
        found.append((at, _command(kind, record)))
        end = at + len(record)
    if end != len(data):
        raise ValueError(f"records: {len(data)} bytes, of which those from {end} on are no record")
    return found


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
