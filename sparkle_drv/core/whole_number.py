"""A whole number that a caller gives, within its bounds."""

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
