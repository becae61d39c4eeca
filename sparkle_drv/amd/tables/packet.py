"""What PM4 and SDMA packets share: the levels of hardware that have a packet, and `walk`, which
decodes a stream of dwords packet by packet.

For a part of a stream that no table declares, `walk` yields the reason instead of a packet, and
continues behind that part. `pm4` and `sdma` have the packets, amd/ib their text form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .bits import Record, level


class Packet(Record):
    """A packet that some levels of hardware have."""

    KIND: ClassVar[str]  # the kind of packet, as error messages name it
    LEVELS: ClassVar[tuple[int, ...]]

    @classmethod
    def on(cls, gfx: float) -> int:
        """Returns the level whose tables apply to `gfx`. Raises ValueError if that level has no
        such packet.
        """
        if level(gfx) not in cls.LEVELS:
            raise ValueError(f"gfx{gfx} has no {cls.KIND} {cls.NAME}")
        return level(gfx)

    @classmethod
    def encode(
        cls, *, gfx: float = 11, header: Mapping[str, int] | None = None, **v: Any
    ) -> list[int]:
        """Returns the dwords of the packet."""
        raise NotImplementedError


class Unknown(ValueError):
    """Raised for a part of a stream that no table declares. A reader can skip its `ndw` dwords."""

    def __init__(self, message: str, ndw: int):
        super().__init__(message)
        self.ndw = ndw


@dataclass(frozen=True)
class Decoded:
    """One packet of a stream. If no table declares it, `cls` is None and `error` has the reason."""

    at: int  # offset in the stream, in dwords
    dwords: tuple[int, ...]
    cls: type[Record] | None
    fields: dict[str, Any]
    error: str = ""


def walk(
    dwords: Sequence[int], decode: Callable[[int], tuple[type[Record], dict[str, Any], int]]
) -> Iterator[Decoded]:
    """Yields every packet of a stream in turn. `decode` decodes the packet at a dword offset."""
    at = 0
    while at < len(dwords):
        try:
            cls, fields, ndw = decode(at)
            yield Decoded(at, tuple(dwords[at : at + ndw]), cls, fields)
        except Unknown as error:
            ndw = error.ndw
            yield Decoded(at, tuple(dwords[at : at + ndw]), None, {}, str(error))
        at += ndw
