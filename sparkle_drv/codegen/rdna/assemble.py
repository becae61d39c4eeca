"""Assembles kernels generated at run time: the same dwords as isa.assemble, but faster.

Most lines of generated kernels differ only in the numbers of VGPRs. So lines that differ only in
these are parsed once, with placeholder numbers. For each line, the real numbers then replace the
placeholders in the fields of the parsed instruction.
"""

from __future__ import annotations

import re
from functools import lru_cache

from sparkle_drv.amd.isa.codec import encode
from sparkle_drv.amd.isa.forms import parse_instruction
from sparkle_drv.amd.isa.table import Inst, Table, table

_VGPR = re.compile(r"(?<=[ ,|-])v(?:(\d+)|\[(\d+):(\d+)\])")
_FIELDS = ("vdst", "vsrc1", "src0", "src1", "src2", "addr", "data")
_SOURCE = 256  # a source field holds the VGPR's number plus this
_FIRST, _APART = 200, 8  # placeholder numbers: beyond the codes of SGPRs, with room for blocks


def assemble(text: str, gen: int) -> list[int]:
    """The dwords of `text`, which has one instruction or label per line and no comments.

    Raises ValueError (AsmError) for an invalid instruction.
    """
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

    def placed(match: re.Match[str]) -> str:
        number, first, last = match.groups()
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
    """Returns (the parsed instruction, those of its fields that hold a VGPR).

    Each such field is (name, index of the VGPR in the text, number to add to the VGPR's number).
    """
    inst = parse_instruction(table(gen), form, 0)
    places = []
    for name in _FIELDS:
        added = _SOURCE if name.startswith("src") else 0
        number = inst.fields.get(name, 0) - added
        if number >= _FIRST:
            places.append((name, (number - _FIRST) // _APART, added))
    return inst, tuple(places)
