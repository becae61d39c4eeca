"""When a piece is late, and who then does it too. Pure: the runner and the player call it.

A device with a late piece takes nothing until that piece has ended; what is planned for it and not
begun goes to the head of the tail, and the device does not count when tail.py asks for rates and
for the fastest one. Others go on with the tail first. Who finds nothing there that it takes does
late pieces again, the earliest begun first; the first result counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from .site import Pace

LATE = 2.0
"""A piece is late at this many times its predicted time. Rates that are 20 % wrong make none late;
with pieces of 1/32 of the call (pieces.py), a device that stops is found after 1/16 of it."""


def late_at_s(begun_s: float, pace: Pace, units: int) -> float:
    """From when on a piece is late that the device began then."""
    return begun_s + LATE * pace.piece_s(units)


def again(now_s: float, pace: Pace, units: int, others_s: Iterable[float] = ()) -> bool:
    """Does an idle device do a late piece too? `others_s`: when those that do it and are not late
    themselves are predicted to end. It does if it is predicted to end before them.
    """
    return now_s + pace.piece_s(units) < min(others_s, default=math.inf)
