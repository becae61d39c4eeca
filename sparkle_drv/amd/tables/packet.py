"""Shared by PM4 and SDMA packets: levels, and walking a stream of dwords.

A stream with undeclared pieces stays readable: such a piece comes out with the reason in place of a
packet. `pm4` and `sdma` have the packets; amd/ib has their text form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .bits import Record, level


class Packet(Record):
    """A packet that some levels have."""

    KIND: ClassVar[str]  # its name in messages
    LEVELS: ClassVar[tuple[int, ...]]

    @classmethod
    def on(cls, gfx: float) -> int:
        """The level whose tables apply to `gfx`. ValueError: it has no such packet."""
        if level(gfx) not in cls.LEVELS:
            raise ValueError(f"gfx{gfx} has no {cls.KIND} {cls.NAME}")
        return level(gfx)

    @classmethod
    def encode(
        cls, *, gfx: float = 11, header: Mapping[str, int] | None = None, **v: Any
    ) -> list[int]:
        """The packet's dwords."""
        raise NotImplementedError


class Unknown(ValueError):
    """A piece of a stream that no table declares. `ndw` dwords can be skipped."""

    def __init__(self, message: str, ndw: int):
        super().__init__(message)
        self.ndw = ndw


@dataclass(frozen=True)
class Decoded:
    """One packet of a stream. If no table declares it, `cls` is None and `error` is the reason."""

    at: int  # dword offset in the stream
    dwords: tuple[int, ...]
    cls: type[Record] | None
    fields: dict[str, Any]
    error: str = ""


def walk(
    dwords: Sequence[int], decode: Callable[[int], tuple[type[Record], dict[str, Any], int]]
) -> Iterator[Decoded]:
    """Every packet of a stream in turn. `decode` takes the dword offset of one."""
    at = 0
    while at < len(dwords):
        try:
            cls, fields, ndw = decode(at)
            yield Decoded(at, tuple(dwords[at : at + ndw]), cls, fields)
        except Unknown as error:
            ndw = error.ndw
            yield Decoded(at, tuple(dwords[at : at + ndw]), None, {}, str(error))
        at += ndw
