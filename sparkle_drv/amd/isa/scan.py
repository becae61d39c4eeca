"""Splits a line of assembly into mnemonic, operands and modifiers, each with its column."""

from __future__ import annotations

import re
from typing import NamedTuple

SUFFIXES = ("_e64_dpp", "_e32", "_e64", "_dpp", "_sdwa")
# Modifiers that are single words without a value. No operand has such a name.
BARE = {"gds", "glc", "slc", "dlc", "lds", "tfe", "offen", "idxen", "clamp"}
_OPERAND = re.compile(
    r"""-?\|[^|]*\|                                   # |v1|
      | -?\s*(?:neg|abs|sext)\((?:[^()]|\([^()]*\))*\)
      | (?:hwreg|sendmsg)\([^()]*\)
      | -?[A-Za-z_.$][\w.$]*(?:\[[^\]]*\](?:\.[lh])?)?
      | -?\d(?:[\w.]|(?<=[eE])[-+])*""",
    re.X,
)
_MODIFIER = re.compile(r"([A-Za-z_]\w*)(?::\s*(\[[^\]]*\]|\w+\([^)]*\)|-?[\w.]+))?")
_LABEL = re.compile(r"\s*([A-Za-z_.$][\w.$]*)\s*:(?!:)")
_COMMENT = re.compile(r"//.*|;.*")


class AsmError(ValueError):
    """An error in assembly text. `line` and `column` count from 1."""

    def __init__(self, message: str, column: int, line: int = 0) -> None:
        super().__init__(f"line {line}, column {column}: {message}" if line else message)
        self.message, self.column, self.line = message, column, line

    def at_line(self, line: int) -> AsmError:
        return AsmError(self.message, self.column, line)


class LinePart(NamedTuple):
    text: str
    column: int


class Modifier(NamedTuple):
    name: str
    value: str  # "" if the modifier has no value
    column: int


class ScannedLine(NamedTuple):
    mnemonic: str
    operands: list[LinePart]
    modifiers: list[Modifier]
    rest: LinePart  # all text after the mnemonic, for operands with a syntax of their own
    column: int  # column of the mnemonic

    @property
    def names(self) -> set[str]:
        return {modifier.name for modifier in self.modifiers}


def strip_comment(text: str) -> str:
    return _COMMENT.sub("", re.sub(r"/\*.*?\*/", lambda found: " " * len(found[0]), text))


def take_labels(text: str) -> tuple[list[str], int]:
    """Returns the labels at the start of a line, and the index of the text after them."""
    labels, at = [], 0
    while found := _LABEL.match(text, at):
        labels.append(found[1])
        at = found.end()
    return labels, at


def base_name(mnemonic: str) -> tuple[str, str]:
    """Splits a mnemonic into name and suffix. The suffix, such as "_e64", names an encoding. It is
    "" if the mnemonic has no suffix.
    """
    for suffix in SUFFIXES:
        if mnemonic.endswith(suffix):
            return mnemonic.removesuffix(suffix), suffix
    return mnemonic, ""


def _scan_modifiers(text: str, at: int) -> list[Modifier]:
    modifiers: list[Modifier] = []
    while at < len(text):
        if text[at] in " \t,":
            at += 1
            continue
        match = _MODIFIER.match(text, at)
        if not match:
            raise AsmError(f"expected a modifier, got {text[at:].strip()!r}", at + 1)
        modifiers.append(Modifier(match[1], match[2] or "", at + 1))
        at = match.end()
    return modifiers


def scan(text: str, start: int, end: int, raw: bool = False) -> ScannedLine:
    """Splits text[start:end], which has no comment and no label, into mnemonic, operands and
    modifiers. With `raw`, leaves operands and modifiers unread.
    """
    part = text[:end]
    mnemonic = re.compile(r"\s*([A-Za-z_]\w*)").match(part, start)
    if not mnemonic:
        raise AsmError(f"expected an instruction, got {part[start:].strip()!r}", start + 1)
    at = mnemonic.end()
    rest = part[at:]
    rest_piece = LinePart(rest.strip(), at + 1 + len(rest) - len(rest.lstrip()))
    line = ScannedLine(mnemonic[1], [], [], rest_piece, mnemonic.start(1) + 1)
    if raw:
        return line
    while True:
        while at < len(part) and part[at] in " \t":
            at += 1
        match = _OPERAND.match(part, at)
        if not match or match[0] in BARE or part[match.end() : match.end() + 1] == ":":
            break
        line.operands.append(LinePart(match[0], at + 1))
        at = match.end()
        while at < len(part) and part[at] in " \t":
            at += 1
        if at >= len(part) or part[at] != ",":
            break
        at += 1
    return line._replace(modifiers=_scan_modifiers(part, at))
