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
class Token:
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
class Item:
    """An element of a statement: `key=value[,value...]`, or `key={field=value ...}` with the pairs
    in `fields`.
    """

    key: Token
    values: list[Token] = field(default_factory=list)
    fields: list[tuple[Token, Token]] | None = None


def tokens(line: str, number: int) -> Iterator[Token]:
    """Yields the tokens of a line, without spaces and comments."""
    at = 0
    while at < len(line):
        found = _TOKEN.match(line, at)
        if not found:
            raise TextError(
                number, at + 1, f"expected a name, number, '=', ',' or bracket, got {line[at]!r}"
            )
        if not (found[0].isspace() or found[0][0] == "#"):
            yield Token(found[0], number, at + 1)
        at = found.end()


def statements(text: str) -> Iterator[list[Token]]:
    """Yields the tokens of each statement: a line, and the indented lines after it."""
    current: list[Token] = []
    for number, line in enumerate(text.split("\n"), 1):
        found = list(tokens(line, number))
        if not found:
            continue
        if found[0].column > 1:
            if not current:
                raise found[0].error("an indented line continues a statement, but there is none")
            current += found
            continue
        if current:
            yield current
        current = found
    if current:
        yield current


def items(rest: list[Token]) -> Iterator[Item]:
    """Yields the items after a statement's name."""
    at = 0
    while at < len(rest):
        at, item = _item(rest, at)
        yield item


def _item(rest: list[Token], at: int) -> tuple[int, Item]:
    at, key = _word(rest, at, "a name")
    at = _sign(rest, at, "=", f"{key.text} lacks '=' and a value")
    if at < len(rest) and rest[at].text == "{":
        return _group(rest, at, key)
    values: list[Token] = []
    while True:
        at, value = _word(rest, at, f"a value of {key.text}")
        values.append(value)
        if at >= len(rest) or rest[at].text != ",":
            return at, Item(key, values)
        at += 1


def _group(rest: list[Token], at: int, key: Token) -> tuple[int, Item]:
    opened, at, pairs = rest[at], at + 1, []
    while at < len(rest) and rest[at].text != "}":
        at, name = _word(rest, at, f"a field of {key.text}")
        at = _sign(rest, at, "=", f"{key.text}.{name.text} lacks '=' and a value")
        at, value = _word(rest, at, f"a value of {key.text}.{name.text}")
        pairs.append((name, value))
    if at >= len(rest):
        raise opened.error(f"the bracket of {key.text} is not closed in this statement")
    return at + 1, Item(key, fields=pairs)


def _word(rest: list[Token], at: int, wanted: str) -> tuple[int, Token]:
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


def _sign(rest: list[Token], at: int, sign: str, reason: str) -> int:
    if at >= len(rest) or rest[at].text != sign:
        here = rest[at] if at < len(rest) else rest[-1]
        raise here.error(reason)
    return at + 1
