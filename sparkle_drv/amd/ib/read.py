"""Reads IBs in any form: text, hex, bytes, a capture, or a dump by Linux, umr or Mesa.

The form `auto` stands for detection. Each kind of dump has a line that no other form has. Bytes
that are no printable text are binary. A text with a capture's IB line is a capture. A text whose
first word, outside comments and IB statements, is a dword is hex. Any other text is the text form.
"""

from __future__ import annotations

import re

from . import devcoredump, mesa, umr
from .capture import from_capture, looks_like_one
from .dwords import from_bytes, from_hex
from .lex import TextError
from .model import Ib
from .parse import parse

# Dumps of other programs: the pattern by which each is recognised, and its reader.
DUMPS = {
    "devcoredump": (devcoredump.MARK, devcoredump.from_devcoredump),
    "umr": (umr.MARK, umr.from_umr),
    "mesa": (mesa.MARK, mesa.from_mesa),
}
FORMS = ("auto", "text", "hex", "bin", "capture", *DUMPS)
_COLOUR = re.compile(rb"\x1b\[[\d;]*[mK]")
_HEX = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9a-fA-F]{8})[\s,]*")
_DATA = re.compile(rb"[^\t\n\r\x20-\x7e\x80-\xff]")


def form_of(data: bytes) -> str:
    """Returns the form, one of FORMS, that `data` most likely has."""
    plain = _COLOUR.sub(b"", data)
    for form, (mark, _) in DUMPS.items():
        if mark.search(plain):
            return form
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "bin"
    if _DATA.search(data):
        return "bin"
    if looks_like_one(text):
        return "capture"
    for line in text.split("\n"):
        words = line.partition("#")[0].replace(",", " ").split()
        if words and words[0] != "IB":
            return "hex" if _HEX.fullmatch(words[0]) else "text"
    return "text"


def read_ibs(
    data: bytes | str,
    gfx: int | None = None,
    ip: str = "compute",
    va: int | None = None,
    form: str = "auto",
) -> list[Ib]:
    """Returns the IBs of `data`. `gfx`, `ip` and `va` (the address of the first IB) are used if
    `data` does not give these values itself. Raises ValueError if no gfx is known, or if `data` has
    no IB. Raises TextError for a mistake in the text.

    >>> [hex(dword) for dword in lowlevel.read_ibs("c0001000 00000000", gfx=11)[0].dwords]
    ['0xc0001000', '0x0']
    """
    raw = data.encode() if isinstance(data, str) else data
    form = form_of(raw) if form == "auto" else form
    if form == "bin":
        if gfx is None:
            raise ValueError("gfx: expected a value, because bytes name no gfx")
        return [from_bytes(raw, gfx, ip, va)]
    if form in DUMPS:
        # Names of processes in a dump may have any encoding.
        plain = _COLOUR.sub(b"", raw).decode(errors="replace").replace("\r\n", "\n")
        return DUMPS[form][1](plain, gfx, ip)
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        column = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
        raise TextError(
            line, column, "expected UTF-8 text, got other bytes: use form 'bin' for raw dwords"
        ) from None
    text = text.replace("\r\n", "\n")
    if form == "hex":
        return from_hex(text, gfx, ip, va)
    if form == "capture":
        return from_capture(text, gfx)
    if form == "text":
        return parse(text, gfx, ip)
    raise ValueError(f"form: expected one of {', '.join(FORMS)}, got {form!r}")
