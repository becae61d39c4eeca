"""Says when a piece is late, and which device then does it, too. All functions are pure.

A device with a late piece takes nothing until that piece has ended. Its planned pieces go to the
head of the tail, for the other devices. When tail.py adds up the rates of all devices and chooses
the fastest one, it leaves this device out. A device that takes no more of the tail does a late
piece again, first the one that has been late for longest. Of a piece that is done twice, the first
result counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from .site import Pace

LATE = 2.0
"""A piece is late at this many times its predicted time. Pieces whose rates are 20 % wrong are not
late. With pieces of 1/32 of the call (pieces.py), a device that stops is found after 1/16 of it."""


def again(now_s: float, pace: Pace, units: int, others_s: Iterable[float] = ()) -> bool:
    """Returns whether the idle device of `pace` should do another device's late piece, too.

    `others_s` are the predicted ends of devices that do the piece and are not late. The idle device
    should do the piece if it is predicted to end before all of these.
    """
    return now_s + pace.piece_s(units) < min(others_s, default=math.inf)
