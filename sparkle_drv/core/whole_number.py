"""Checks whole numbers that a caller gives: one within bounds, or several."""

from __future__ import annotations

import operator
from typing import Any


def within(what: str, argument: Any, least: int, most: int) -> int:
    """Returns `argument` as an int from `least` to `most`.

    Raises TypeError or ValueError with a message that begins with `what`.
    """
    if isinstance(argument, bool) or not hasattr(argument, "__index__"):
        raise TypeError(f"{what}: expected a whole number, got {argument!r}")
    number = operator.index(argument)
    if not least <= number <= most:
        raise ValueError(f"{what}: expected {least} to {most}, got {number}")
    return number


def several(what: str, argument: Any, wanted: str) -> tuple[int, ...]:
    """Returns an int or a sequence of ints as a tuple.

    Raises TypeError, whose message says that `wanted` was expected.
    """
    try:
        return tuple(
            map(operator.index, [argument] if hasattr(argument, "__index__") else argument)
        )
    except TypeError:
        raise TypeError(f"{what}: expected {wanted}, got {argument!r}") from None
