"""Texts and values as errors quote them: short, whatever they are. Pure."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable

MOST = 60  # characters of one text or value
_MOST_NAMES = 8


def short(text: str) -> str:
    """A name or the like; a long one without its end."""
    return text if len(text) <= MOST else f"{text[: MOST - 3]}..."


class _Repr(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = MOST

    def repr_int(self, x: int, level: int) -> str:
        # Python itself refuses to write down what has thousands of digits.
        large = type(x) is int and x.bit_length() > 512
        return f"a number of {x.bit_length()} bits" if large else repr(x)


def shown(value: object) -> str:
    """repr of a value, of which little is read however large it is."""
    try:
        return short(_repr.repr(value))
    except Exception:  # whatever a __repr__ of the caller's own raises
        return f"this {short(type(value).__name__)}"


def listed(names: Iterable[str]) -> str:
    """Names, separated by commas; of many the first."""
    given = list(names)
    more = f" and {len(given) - _MOST_NAMES} more" if len(given) > _MOST_NAMES else ""
    return ", ".join(short(name) for name in given[:_MOST_NAMES]) + more


_repr = _Repr()
