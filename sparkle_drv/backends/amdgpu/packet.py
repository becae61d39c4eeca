"""What PM4 and SDMA packets share: levels, walking a stream of dwords, and its text form.

A stream that holds something undeclared stays readable: such a piece comes out as RAW with the
reason, and its text gives back the same dwords. `pm4` and `sdma` bring the packets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .bits import U32_MAX, Record, level, number


class Packet(Record):
    """A packet that some levels have."""

    KIND: ClassVar[str]  # as messages call it
    LEVELS: ClassVar[tuple[int, ...]]

    @classmethod
    def on(cls, gfx: float) -> int:
        """The level whose tables hold for `gfx`. ValueError when that has no such packet."""
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
    """A piece of a stream that no table declares; `ndw` dwords can be stepped over."""

    def __init__(self, message: str, ndw: int):
        super().__init__(message)
        self.ndw = ndw


@dataclass(frozen=True)
class Decoded:
    """One packet of a stream: `cls` is None, and `error` says why, where no table declares it."""

    at: int  # dword offset in the stream
    dwords: tuple[int, ...]
    cls: type[Record] | None
    fields: dict[str, Any]
    error: str = ""


def walk(
    dwords: Sequence[int], decode: Callable[[int], tuple[type[Record], dict[str, Any], int]]
) -> Iterator[Decoded]:
    """Every packet of a stream in turn; `decode` takes the dword offset of one."""
    at = 0
    while at < len(dwords):
        try:
            cls, fields, ndw = decode(at)
            yield Decoded(at, tuple(dwords[at : at + ndw]), cls, fields)
        except Unknown as error:
            ndw = error.ndw
            yield Decoded(at, tuple(dwords[at : at + ndw]), None, {}, str(error))
        at += ndw


def lines(stream: Iterable[Decoded], gfx: int) -> Iterator[str]:
    """A line a packet: its name, then all that differs from an empty one."""
    for packet in stream:
        if packet.cls is None:
            raw = " ".join(f"{dword:#010x}" for dword in packet.dwords)
            yield f"RAW {raw}  # {packet.error}"
        else:
            yield " ".join([packet.cls.NAME, *packet.cls.words(packet.fields, gfx)])


def text(stream: Iterable[Decoded], gfx: float) -> str:
    """A line a packet; `parse` gives the same dwords back."""
    return "\n".join(lines(stream, level(gfx)))


def parse(text: str, gfx: float, classes: Iterable[type[Packet]]) -> list[int]:
    """Dwords of what `text` wrote, or a person did, in packets of `classes` that the level has.
    ValueError names the line."""
    g, every = level(gfx), list(classes)
    by_name = {cls.NAME: cls for cls in every if g in cls.LEVELS}

    def encode(name: str, tokens: list[str]) -> list[int]:
        if name not in by_name:
            raise ValueError(f"gfx{gfx} has no {every[0].KIND} {name}")
        return by_name[name].encode(gfx=g, **by_name[name].read_words(tokens, g))

    return read_lines(text, encode)


def read_lines(text: str, encode: Callable[[str, list[str]], list[int]]) -> list[int]:
    """Back from `lines`: `encode` takes a packet's name and tokens. ValueError names the line."""
    dwords: list[int] = []
    for count, line in enumerate(text.splitlines(), 1):
        tokens = line.partition("#")[0].split()
        if not tokens:
            continue
        try:
            if tokens[0] == "RAW":
                dwords += [number(token, token) & U32_MAX for token in tokens[1:]]
            else:
                dwords += encode(tokens[0], tokens[1:])
        except ValueError as error:
            raise ValueError(f"line {count}: {error}") from None
    return dwords
