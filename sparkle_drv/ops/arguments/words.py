"""Quotes texts and values in errors; the quote is always short. Pure."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable

MOST = 60  # characters of one text or value
_MOST_NAMES = 8


def short(text: str) -> str:
    """A name or other text; the end of a long one is cut off."""
    return text if len(text) <= MOST else f"{text[: MOST - 3]}..."


class _Repr(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = MOST

    def repr_int(self, x: int, level: int) -> str:
        # Python refuses to print numbers of thousands of digits.
        large = type(x) is int and x.bit_length() > 512
        return f"a number of {x.bit_length()} bits" if large else repr(x)


def shown(value: object) -> str:
    """The repr of a value, shortened; it reads only a small part of a large value."""
    try:
        return short(_repr.repr(value))
    except Exception:  # the caller's __repr__ may raise any exception
        return f"this {short(type(value).__name__)}"


def listed(names: Iterable[str]) -> str:
    """Names separated by commas; only the first ones if there are many."""
    given = list(names)
    more = f" and {len(given) - _MOST_NAMES} more" if len(given) > _MOST_NAMES else ""
    return ", ".join(short(name) for name in given[:_MOST_NAMES]) + more


_repr = _Repr()
