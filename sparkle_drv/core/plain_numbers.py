"""A number of seconds that a caller gives, as a plain int or float: it is converted once.

An object may stand for a number by `__index__` or `__float__`, which are the caller's code: what
they raise propagates unchanged. Called by fence.py; launches have `_hot.plain`.
"""

from __future__ import annotations

from typing import Any

from sparkle_drv import _hot
from sparkle_drv.core.launch_errors import told


def seconds(where: str, given: Any) -> float:
    """A float, or an int that may be too large for one; TypeError that begins with `where`."""
    made: Any = _hot.number("d", given)
    if type(made) not in (int, float):
        raise TypeError(f"{where}: expected a number of seconds, got {told(given)}")
    return made  # type: ignore[no-any-return]
