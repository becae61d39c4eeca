"""The grammar of the text form of IBs: statements, their items, and the line and column of each.

    NAME key=value key={field=value ...} list=1,2,3      # a comment
        key=value                                        an indented line continues the statement

This module does not know which packets exist. Every error is a TextError with its line and column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

_TOKEN = re.compile(r"\s+|#.*|[A-Za-z0-9_.+*-]+|[={},]")
_NUMBER = re.compile(r"-?(0x[0-9a-f]{1,40}|0b[01]{1,130}|[0-9]{1,40})", re.IGNORECASE)


class TextError(ValueError):
    """An error in a text. `line` and `column` count from 1.

    >>> lowlevel.parse("NO_SUCH_PACKET", gfx=11)
    Traceback (most recent call last):
        ...
    sparkle_drv.amd.ib.lex.TextError: line 1, column 1: gfx11 compute queues have no packet ...
    """

    def __init__(self, line: int, column: int, reason: str):
        super().__init__(f"line {line}, column {column}: {reason}")
        self.line, self.column, self.reason = line, column, reason


def located(line: int, read: Callable[[str], T], text: str) -> T:
    """Returns `read(text)`. Turns a ValueError of `read` into a TextError of line `line`."""
    try:
        return read(text)
    except ValueError as error:
        raise TextError(line, 1, str(error)) from None


@dataclass(frozen=True)
class IbToken:
    text: str
    line: int
    column: int

    def error(self, reason: str) -> TextError:
        return TextError(self.line, self.column, reason)

    def number(self) -> int:
        if not _NUMBER.fullmatch(self.text):
            raise self.error(f"{self.text[:40]!r} is not a number")
        text = self.text.lstrip("-")
        value = int(text, 0 if text[:2].lower() in ("0x", "0b") else 10)
        return -value if self.text[0] == "-" else value


@dataclass(frozen=True)
class StatementPart:
    """An element of a statement: `key=value[,value...]`, or `key={field=value ...}` with the pairs
    in `fields`.
    """

    key: IbToken
    values: list[IbToken] = field(default_factory=list)
    fields: list[tuple[IbToken, IbToken]] | None = None


def tokens(line: str, number: int) -> Iterator[IbToken]:
    """Yields the tokens of a line, without spaces and comments."""
    at = 0
    while at < len(line):
        match = _TOKEN.match(line, at)
        if not match:
            raise TextError(
                number, at + 1, f"expected a name, number, '=', ',' or bracket, got {line[at]!r}"
            )
        if not (match[0].isspace() or match[0][0] == "#"):
            yield IbToken(match[0], number, at + 1)
        at = match.end()


def statements(text: str) -> Iterator[list[IbToken]]:
    """Yields the tokens of each statement: a line, and the indented lines after it."""
    current: list[IbToken] = []
    for number, line in enumerate(text.split("\n"), 1):
        row = list(tokens(line, number))
        if not row:
            continue
        if row[0].column > 1:
            if not current:
                raise row[0].error("an indented line continues a statement, but there is none")
            current += row
            continue
        if current:
            yield current
        current = row
    if current:
        yield current


def items(rest: list[IbToken]) -> Iterator[StatementPart]:
    """Yields the items after a statement's name."""
    at = 0
    while at < len(rest):
        at, item = _item(rest, at)
        yield item


def _item(rest: list[IbToken], at: int) -> tuple[int, StatementPart]:
    at, key = _word(rest, at, "a name")
    at = _sign(rest, at, "=", f"{key.text} lacks '=' and a value")
    if at < len(rest) and rest[at].text == "{":
        return _group(rest, at, key)
    values: list[IbToken] = []
    while True:
        at, value = _word(rest, at, f"a value of {key.text}")
        values.append(value)
        if at >= len(rest) or rest[at].text != ",":
            return at, StatementPart(key, values)
        at += 1


def _group(rest: list[IbToken], at: int, key: IbToken) -> tuple[int, StatementPart]:
    opened, at, pairs = rest[at], at + 1, []
    while at < len(rest) and rest[at].text != "}":
        at, name = _word(rest, at, f"a field of {key.text}")
        at = _sign(rest, at, "=", f"{key.text}.{name.text} lacks '=' and a value")
        at, value = _word(rest, at, f"a value of {key.text}.{name.text}")
        pairs.append((name, value))
    if at >= len(rest):
        raise opened.error(f"the bracket of {key.text} is not closed in this statement")
    return at + 1, StatementPart(key, fields=pairs)


def _word(rest: list[IbToken], at: int, wanted: str) -> tuple[int, IbToken]:
    if at >= len(rest):
        end = rest[-1]
        raise TextError(
            end.line,
            end.column + len(end.text),
            f"expected {wanted} here, got the end of the statement",
        )
    if rest[at].text in "={},":
        raise rest[at].error(f"expected {wanted}, got {rest[at].text!r}")
    return at + 1, rest[at]


def _sign(rest: list[IbToken], at: int, sign: str, reason: str) -> int:
    if at >= len(rest) or rest[at].text != sign:
        here = rest[at] if at < len(rest) else rest[-1]
        raise here.error(reason)
    return at + 1
