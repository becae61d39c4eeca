"""What PM4 and SDMA packets share: walking a stream of dwords, and its text form.

A stream that holds something undeclared stays readable: such a piece comes out as RAW with the
reason, and its text gives back the same dwords. `pm4` and `sdma` bring the packets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .bits import U32_MAX, Record, number


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
