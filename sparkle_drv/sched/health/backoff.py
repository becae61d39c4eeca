"""How long a device is left alone before it is tried: exponential backoff with jitter. Pure."""

from __future__ import annotations

FIRST_S = 1.0
"""Longest wait before the first try. Four missed heartbeats are 2 s: a device whose stall is over
by then stays away half as long again."""
MOST_S = 60.0
"""Longest wait of all: a failed try holds a thread for some seconds, and a device that can work
again is not left alone for long."""
JITTER = 0.25
"""Part of the wait that chance may leave out, so that devices lost together are not tried together.
Below a half, so that each wait is longer than the one before, whatever chance says."""


def wait_s(tries: int, chance: float) -> float:
    """Seconds until the next try after `tries` in vain; `chance` in 0..1 leaves out that much of
    JITTER."""
    return min(MOST_S, FIRST_S * 2.0 ** min(tries, 64)) * (1 - JITTER * chance)
