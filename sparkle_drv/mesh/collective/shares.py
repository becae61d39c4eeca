"""Cuts the data among places, each of which adds up its part. All functions are pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from sparkle_drv.mesh.lanes.route_program import ALIGN

LEAST = 0.25
"""A place whose share would be less than this part of an equal share gets none. With this value the
worst plan for the sets `unequal` of benchmarks/_inside/collectives.py reaches more of the bound
than with 0.
"""


def weights(rates: Sequence[float]) -> list[float]:
    """Returns the share of the data that each of p devices adds up in a butterfly. `rates` are the
    rates of their ports. The sum of the shares is 1.

    A device with share w sends and receives 1 + (p - 2) w times the data. All devices take the same
    time T if w = (T rate - 1) / (p - 2), or 0 where that is negative. A device whose share would be
    less than LEAST / p gets none, because its short transfers would block other ports.
    """
    p = len(rates)
    if p <= 2:
        return [1 / p] * p

    def shares(t: float) -> list[float]:
        return [max(0.0, (t * rate - 1) / (p - 2)) for rate in rates]

    low, high = 0.0, p / min(rates)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(shares(middle)) < 1 else (low, middle)
    found = [w if w * p >= LEAST else 0.0 for w in shares(high)]
    total = sum(found)
    return [w / total for w in found]


def aligned(nbytes: int) -> int:
    """Returns `nbytes` rounded up to a multiple of ALIGN."""
    return -(-nbytes // ALIGN) * ALIGN


def cuts(nbytes: int, itemsize: int, shares: Sequence[float]) -> list[tuple[int, int]]:
    """Returns (offset, bytes) of each part of `nbytes`. A part consists of whole elements and
    begins at a multiple of ALIGN.
    """
    unit = max(ALIGN, itemsize)
    ends, passed = [0], 0.0
    for share in shares:
        passed += share
        ends.append(max(ends[-1], min(nbytes, round(passed * nbytes / unit) * unit)))
    ends[-1] = nbytes
    for at in range(len(ends) - 1, 0, -1):  # The last part with a share gets what rounding leaves.
        if shares[at - 1] > 0:
            break
        ends[at - 1] = nbytes
    return [(a, b - a) for a, b in itertools.pairwise(ends)]
