"""Computes how long a device is left alone before it is tried: exponential backoff with jitter.
The function is pure.
"""

from __future__ import annotations

FIRST_S = 1.0
"""Seconds of the longest wait before the first try. Four missed heartbeats take 2 s; a device that
recovers in that time stays away half as long again."""
MOST_S = 60.0
"""Seconds of the longest wait before any try. A failed try blocks a thread for seconds, so tries
must be rare. A device that works again must not wait longer than this."""
JITTER = 0.25
"""Largest part of the wait that chance removes, so that devices lost together are not tried
together. It is below a half, so that each wait is longer than the one before."""


def wait_s(tries: int, chance: float) -> float:
    """Returns the seconds until the next try after `tries` failed ones. They are shortened by the
    fraction JITTER * `chance`. `chance` is a random number in 0..1.
    """
    return min(MOST_S, FIRST_S * 2.0 ** min(tries, 64)) * (1 - JITTER * chance)
