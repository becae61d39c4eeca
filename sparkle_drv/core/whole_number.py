"""Whole numbers that a caller gives: one within its bounds, or several."""

from __future__ import annotations

import operator
from typing import Any


def within(what: str, given: Any, least: int, most: int) -> int:
    """The number; TypeError or ValueError that begins with `what`."""
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise TypeError(f"{what}: a whole number is wanted, got {given!r}")
    number = operator.index(given)
    if not least <= number <= most:
        raise ValueError(f"{what}: {least} to {most} is wanted, got {number}")
    return number


def several(what: str, given: Any, wanted: str) -> tuple[int, ...]:
    """An int or a sequence of ints as a tuple; TypeError that `wanted` completes."""
    try:
        return tuple(map(operator.index, [given] if hasattr(given, "__index__") else given))
    except TypeError:
        raise TypeError(f"{what}: {wanted} wanted, got {given!r}") from None
