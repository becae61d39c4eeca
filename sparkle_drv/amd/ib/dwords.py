"""Converts IBs to hexadecimal dwords and to bytes, and back, without interpretation.

Hex: dwords of one to eight digits, with or without 0x, separated by spaces or commas; '#' begins a
comment. Several IBs, or an address, need IB statements as in the text form. Bytes are little
endian.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator

from .lex import TextError, statements
from .model import MAX_DWORDS, Ib
from .parse import header
from .print import DWORDS_A_LINE
from .print import header as ib_statement
from .shape import IB

_WORD = re.compile(r"[^\s,]+")
_DWORD = re.compile(r"(0[xX])?[0-9a-fA-F]{1,8}")


def from_bytes(data: bytes, gfx: int, ip: str = "compute", va: int | None = None) -> Ib:
    """Makes an IB of the whole dwords in `data`. One to three remaining bytes become `extra`.

    >>> lowlevel.from_bytes(b"\\x01\\0\\0\\0\\x02", gfx=11)
    Ib(dwords=(1,), gfx=11, ip='compute', va=None, extra=b'\\x02', complete=True, gaps={})
    """
    count = len(data) // 4
    if count > MAX_DWORDS:
        raise ValueError(f"expected at most {MAX_DWORDS} dwords of an IB, got {count}")
    dwords = struct.unpack_from(f"<{count}I", data)
    return Ib(dwords, gfx, ip, va, extra=data[4 * count :])


def to_bytes(ib: Ib) -> bytes:
    """Returns the dwords of an IB as little-endian bytes, followed by `extra`.

    >>> lowlevel.to_bytes(lowlevel.Ib((1, 2), gfx=11))
    b'\\x01\\x00\\x00\\x00\\x02\\x00\\x00\\x00'
    """
    return struct.pack(f"<{len(ib.dwords)}I", *ib.dwords) + ib.extra


def from_hex(text: str, gfx: int | None, ip: str = "compute", va: int | None = None) -> list[Ib]:
    """Returns the IBs of a hex listing. Raises TextError for a word that is no dword."""
    ibs: list[Ib] = []
    about: dict[str, object] = {"va": va}
    dwords: list[int] = []
    opened = False

    def close() -> None:
        if not opened and not dwords:
            return
        values = {"gfx": gfx, "ip": ip, **about}
        if values["gfx"] is None:
            raise TextError(1, 1, "gfx: expected a value, because these dwords name no gfx")
        ibs.append(Ib(tuple(dwords), **values))  # type: ignore[arg-type]

    for number, line in enumerate(text.split("\n"), 1):
        line = line.partition("#")[0]
        if re.match(rf"{IB}(\s|$)", line):
            close()
            [[_, *rest]] = statements("\n" * (number - 1) + line)
            about, dwords, opened = header(rest), [], True
            continue
        dwords += _dwords(line, number)
        if len(dwords) > MAX_DWORDS:
            raise TextError(number, 1, f"expected at most {MAX_DWORDS} dwords in an IB, got more")
    close()
    return ibs


def _dwords(line: str, number: int) -> Iterator[int]:
    for word in _WORD.finditer(line):
        if not _DWORD.fullmatch(word[0]):
            raise TextError(
                number,
                word.start() + 1,
                f"expected a dword 0..0xffffffff in hex, got {word[0][:40]!r}",
            )
        yield int(word[0], 16)


def to_hex(ibs: Iterable[Ib]) -> str:
    """Returns a listing that `from_hex` reads. Raises ValueError if an IB has `extra` bytes, which
    hex cannot hold.

    >>> print(lowlevel.to_hex([lowlevel.Ib((0xC0001000, 0), gfx=11)]), end="")
    IB gfx=11 ip=compute
    c0001000 00000000
    """
    lines = []
    for number, ib in enumerate(ibs):
        if ib.extra:
            raise ValueError(
                f"IB {number}: hex cannot hold the last {len(ib.extra)} bytes: write form 'bin'"
            )
        lines.append(ib_statement(ib))
        for i in range(0, len(ib.dwords), DWORDS_A_LINE):
            lines.append(" ".join(f"{d:08x}" for d in ib.dwords[i : i + DWORDS_A_LINE]))
    return "\n".join(lines) + "\n"
