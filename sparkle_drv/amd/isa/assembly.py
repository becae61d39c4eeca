"""Assembler and disassembler for RDNA2 (gfx10.3) and RDNA3 (gfx11), in llvm-mc's syntax.

It is small and exact rather than complete: text that llvm-mc prints gives the same bytes again.
Unknown text is an error with line and column. There are no expressions and no macros. The only
directives are `.long` and those without effect (`.text`, `.globl`, `.p2align`, `.type`, `.size`).

    words = assemble("s_mov_b32 s0, 1\\ns_endpgm", "gfx1100")     # a list of dwords
    text = disassemble(words, "gfx1100")

tools/gen.py makes the tables gfx10.py and gfx11.py from native/emu/isa/rdna2.isa and rdna3.isa.
formats.py has the bit positions of fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .codec import DecodeError, decode, encode
from .forms import parse_instruction
from .imm import number
from .print import instruction_text
from .scan import AsmError, strip_comment, take_labels
from .table import Inst, Table, generation, has, table

__all__ = ["AsmError", "DecodeError", "assemble", "disassemble", "generation", "instructions"]

_SILENT = {".text", ".globl", ".global", ".p2align", ".type", ".size", ".amdgcn_target"}


class _ProgramLine(NamedTuple):
    """One line of the program: an instruction's text, or data."""

    line: int
    text: str
    start: int
    address: int  # in dwords from the start of the program
    ndw: int
    # the encoded dwords of the line, or () if they depend on a label
    data: tuple[int, ...]


def _directive(text: str, start: int) -> tuple[int, ...]:
    word, _, rest = text[start:].strip().partition(" ")
    if word == ".long":
        try:
            return tuple(number(part.strip()) & 0xFFFFFFFF for part in rest.split(","))
        except ValueError as error:
            raise AsmError(str(error), start + 1) from None
    if word in _SILENT:
        return ()
    raise AsmError(f"no such directive: {word}", start + 1)


def _first_pass(isa: Table, gfx: str | int, text: str) -> tuple[list[_ProgramLine], dict[str, int]]:
    items: list[_ProgramLine] = []
    labels: dict[str, int] = {}
    address = 0
    for number_, whole in enumerate(text.splitlines(), 1):
        line = strip_comment(whole)
        names, start = take_labels(line)
        try:
            for name in names:
                if name in labels:
                    raise AsmError(f"label {name} is defined twice", 1)
                labels[name] = address
            if not line[start:].strip():
                continue
            if line[start:].strip().startswith("."):
                data = _directive(line, start)
                items.append(_ProgramLine(number_, line, start, address, len(data), data))
            else:
                inst = parse_instruction(isa, line, start)
                if not has(gfx, inst.row):
                    raise AsmError(f"{gfx} has no {inst.row.name}; gfx1150 has it", start + 1)
                words = tuple(encode(isa, inst))
                jumps = any(operand.type == "target" for operand in inst.row.operands)
                data = () if jumps else words
                items.append(_ProgramLine(number_, line, start, address, len(words), data))
        except AsmError as error:
            raise error.at_line(number_) from None
        address += items[-1].ndw
    return items, labels


def assemble(text: str, gfx: str | int) -> list[int]:
    """Returns the dwords of a program. Raises AsmError (a ValueError) with line, column and what is
    wrong.

    `gfx` is "gfx1036", "gfx1100" or just 10 or 11; an unknown chip raises ValueError. A name of the
    other generation (global_load_dword, global_load_b32) is accepted too if it means the same.
    """
    isa = table(generation(gfx))
    items, labels = _first_pass(isa, gfx, text)
    words: list[int] = []
    for item in items:
        if item.data or not item.ndw:
            words += item.data
            continue
        away = {name: place - item.address - 1 for name, place in labels.items()}
        try:
            words += encode(isa, parse_instruction(isa, item.text, item.start, away))
        except AsmError as error:
            raise error.at_line(item.line) from None
    return words


def instructions(words: Sequence[int], gfx: str | int) -> Iterator[tuple[int, Inst, int]]:
    """Yields (offset in dwords, instruction, number of its dwords), in order. Raises DecodeError
    with the offset in bytes.
    """
    isa = table(generation(gfx))
    at = 0
    while at < len(words):
        try:
            inst, ndw = decode(isa, words[at : at + 4])
        except DecodeError as error:
            raise DecodeError(f"cannot decode the dwords at {4 * at:#x}: {error}") from None
        yield at, inst, ndw
        at += ndw


def disassemble(words: Sequence[int], gfx: str | int, *, wave: int = 32) -> str:
    """Returns one line per instruction, as llvm-mc prints it. Raises DecodeError with format and
    opcode.

    `wave` is the number of lanes of a wave, 32 or 64. It decides the width of lane masks.
    """
    if wave not in (32, 64):
        raise ValueError(f"wave: expected 32 or 64, got {wave}")
    isa = table(generation(gfx))
    lines = [instruction_text(isa, inst, wave) for _, inst, _ in instructions(words, gfx)]
    return "\n".join(lines) + ("\n" if re.search(r"\S", "".join(lines)) else "")
