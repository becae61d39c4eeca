"""Quotes texts and values in errors; a quote is always short. This file uses no device."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable

MOST = 60  # the most characters of one text or value in an error message
_MOST_NAMES = 8


def short(text: str) -> str:
    """Returns `text`. If the text is longer than MOST characters, its end is cut off."""
    return text if len(text) <= MOST else f"{text[: MOST - 3]}..."


class _Repr(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = MOST

    def repr_int(self, x: int, level: int) -> str:
        # Python raises ValueError when it converts an int of thousands of digits to text.
        large = type(x) is int and x.bit_length() > 512
        return f"a number of {x.bit_length()} bits" if large else repr(x)


def shown(value: object) -> str:
    """Returns the shortened repr of a value. If the value is large, only a small part is read."""
    try:
        return short(_repr.repr(value))
    except Exception:  # the caller's __repr__ may raise any exception
        return f"this {short(type(value).__name__)}"


def listed(names: Iterable[str]) -> str:
    """Returns names separated by commas: the first _MOST_NAMES, then the number of the others."""
    given = list(names)
    more = f" and {len(given) - _MOST_NAMES} more" if len(given) > _MOST_NAMES else ""
    return ", ".join(short(name) for name in given[:_MOST_NAMES]) + more


_repr = _Repr()
