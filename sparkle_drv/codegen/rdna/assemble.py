"""isa.assemble for kernels that are written at run time: the same words, several times sooner.

Most of their lines differ from others in the numbers of VGPRs alone. So a line is parsed with other
numbers in their place, once, and where these end up in its fields the real ones are put.
"""

from __future__ import annotations

import re
from functools import lru_cache

from sparkle_drv.amd.isa.codec import encode
from sparkle_drv.amd.isa.forms import parse_instruction
from sparkle_drv.amd.isa.table import Inst, Table, table

_VGPR = re.compile(r"(?<=[ ,|-])v(?:(\d+)|\[(\d+):(\d+)\])")
_FIELDS = ("vdst", "vsrc1", "src0", "src1", "src2", "addr", "data")
_SOURCE = 256  # what a source's code has added to a VGPR's number
_FIRST, _APART = 200, 8  # of the numbers put in: beyond all SGPRs' codes, and room for four each


def assemble(text: str, gen: int) -> list[int]:
    """The dwords of `text`: one instruction or one label a line, no comments. ValueError (AsmError)
    for what is no instruction."""
    isa = table(gen)
    words: list[int] = []
    labels: dict[str, int] = {}
    jumps: list[tuple[int, str]] = []
    for line in text.splitlines():
        if line.endswith(":"):
            labels[line[:-1]] = len(words)
        elif line.startswith(("s_branch", "s_cbranch")):
            jumps.append((len(words), line))
            words.append(0)
        else:
            words += _words(isa, line)
    for at, line in jumps:
        away = {name: place - at - 1 for name, place in labels.items()}
        (words[at],) = encode(isa, parse_instruction(isa, line, 0, away))
    return words


def _words(isa: Table, line: str) -> list[int]:
    numbers: list[int] = []

    def placed(found: re.Match[str]) -> str:
        number, first, last = found.groups()
        at = _FIRST + _APART * len(numbers)
        numbers.append(int(number or first))
        return f"v{at}" if number else f"v[{at}:{at + int(last) - int(first)}]"

    inst, places = _parsed(isa.gen, _VGPR.sub(placed, line))
    fields = dict(inst.fields)
    for name, which, added in places:
        fields[name] = numbers[which] + added
    return encode(isa, Inst(inst.row, fields, literal=inst.literal))


@lru_cache(maxsize=4096)
def _parsed(gen: int, form: str) -> tuple[Inst, tuple[tuple[str, int, int], ...]]:
    """The instruction, and its fields with a VGPR: (name, the how manyth of the text, what is added
    to its number)."""
    inst = parse_instruction(table(gen), form, 0)
    places = []
    for name in _FIELDS:
        added = _SOURCE if name.startswith("src") else 0
        number = inst.fields.get(name, 0) - added
        if number >= _FIRST:
            places.append((name, (number - _FIRST) // _APART, added))
    return inst, tuple(places)
