"""Converts a number of seconds, which a caller gives, to a plain int or float of Python.

An object may stand for a number by `__index__` or `__float__`. These methods are the caller's code.
So they are called once, and their exceptions propagate unchanged. fence.py calls this; launches use
`_hot.plain`.
"""

from __future__ import annotations

from typing import Any

from sparkle_drv import _hot
from sparkle_drv.core.launch_errors import type_and_repr


def seconds(where: str, duration: Any) -> float:
    """Returns `duration` as a float, or as an int, which may be too large for a float.

    Raises TypeError with a message that begins with `where`.
    """
    number: Any = _hot.number("d", duration)
    if type(number) not in (int, float):
        raise TypeError(f"{where}: expected a number of seconds, got {type_and_repr(duration)}")
    return number  # type: ignore[no-any-return]
