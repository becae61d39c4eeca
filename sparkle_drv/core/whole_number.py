"""Checks whole numbers that a caller gives: one within bounds, or several."""

from __future__ import annotations

import operator
from typing import Any


def within(what: str, given: Any, least: int, most: int) -> int:
    """Returns `given` as an int from `least` to `most`.

    Raises TypeError or ValueError with a message that begins with `what`.
    """
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise TypeError(f"{what}: expected a whole number, got {given!r}")
    number = operator.index(given)
    if not least <= number <= most:
        raise ValueError(f"{what}: expected {least} to {most}, got {number}")
    return number


def several(what: str, given: Any, wanted: str) -> tuple[int, ...]:
    """Returns an int or a sequence of ints as a tuple.

    Raises TypeError, whose message says that `wanted` was expected.
    """
    try:
        return tuple(map(operator.index, [given] if hasattr(given, "__index__") else given))
    except TypeError:
        raise TypeError(f"{what}: expected {wanted}, got {given!r}") from None
