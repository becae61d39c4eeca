"""Measures the links to and from the host; survey.py measures those between devices.

Each measurement waits for its fence. The first measurement of each size is dropped.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkle_drv.core.device import Device
from sparkle_drv.errors import SparkleError

from .line import LEAST_SIZES, Point, usable

EACH = 3
"""Measurements of one size that count."""
WARM_S = 1e-3
"""Seconds of repeated work before a measurement, at least one run. After a pause, clocks, caches
and sleeping threads slow down the first few short runs."""
TRANSFERS = (1 << 12, 1 << 16, 1 << 20, 1 << 23)
"""Bytes of the transfers that a link is fitted to."""
LINK_S, MOST_LINK_S = 0.1, 1.0
"""Seconds for the transfers in one direction; the largest size is the last that fits. MOST_LINK_S
is the limit for the first LEAST_SIZES sizes, LINK_S for the others."""

FAILURES = (SparkleError, OSError, MemoryError)
"""Errors that a probe may raise."""


class NoTimes(SparkleError):
    """No measured time is plausible: the clock is unusable."""


Clock = Callable[[], float]


def links(dev: Device, clock: Clock = time.perf_counter) -> tuple[list[Point], list[Point]]:
    """Returns the measurements from host to device and from device to host: two lists of (bytes,
    seconds).

    Times include allocation at the destination. Raises the errors in FAILURES.
    """

    def into(nbytes: int, stack: contextlib.ExitStack) -> Callable[[], object]:
        host = _host(nbytes)
        return lambda: dev.array(host).close()

    def back(nbytes: int, stack: contextlib.ExitStack) -> Callable[[], object]:
        made = dev.array(_host(nbytes))
        stack.callback(made.close)
        return made.numpy

    return _moves(into, clock), _moves(back, clock)


Prepared = Callable[[int, contextlib.ExitStack], Callable[[], object]]
"""Takes the bytes and a stack that closes memory afterwards. Returns a function that makes a
transfer and waits."""


def _moves(prepared: Prepared, clock: Clock) -> list[Point]:
    points: list[Point] = []
    virtual = clock != time.perf_counter
    begin = time.perf_counter()
    for i, nbytes in enumerate(TRANSFERS):
        with contextlib.ExitStack() as stack:
            left = math.inf if virtual else LINK_S - (time.perf_counter() - begin)
            try:
                times = timed(prepared(nbytes, stack), clock, WARM_S, left)
            except MemoryError:
                if not points:
                    raise
                break
        points += [(float(nbytes), t) for t in times]
        # The next size may have sixteen times the bytes. The loop ends if its transfers could take
        # too long. With fewer than LEAST_SIZES measured sizes, the limit is MOST_LINK_S seconds for
        # two transfers. Otherwise it is LINK_S seconds for EACH + 1 transfers.
        spent = time.perf_counter() - begin
        enough = i + 1 >= LEAST_SIZES
        runs, limit_s = (EACH + 1, LINK_S) if enough else (2, MOST_LINK_S)
        if not virtual and spent + 16 * runs * min(times) > limit_s:
            break
    return usable_points(points)


def _host(nbytes: int) -> np.ndarray[Any, Any]:
    return np.ones(nbytes, np.uint8)


def usable_points(points: list[Point]) -> list[Point]:
    """Returns the points whose sizes and times are plausible.

    Raises NoTimes if there are points and none is plausible.
    """
    found = [point for point in points if usable(point)]
    if points and not found:
        raise NoTimes(f"expected a plausible time of a measurement, got {points[0][1]} s")
    return found


def fenced(work: Any) -> None:
    """Waits for an Array, or for anything else with a fence."""
    fence = getattr(work, "fence", None)
    if fence is not None:
        fence.wait()


def timed(
    run: Callable[[], object], clock: Clock, warm_s: float = WARM_S, left_s: float = math.inf
) -> list[float]:
    """Returns the seconds of each of EACH runs, after some runs that only warm up. Once the
    measured runs have taken more than `left_s`, no further run begins. At least one run is
    measured.
    """
    warm = clock() + warm_s
    run()
    while clock == time.perf_counter and clock() < warm:
        run()
    times = []
    for _ in range(EACH):
        begin = clock()
        run()
        times.append(clock() - begin)
        if sum(times) > left_s:
            break
    return times
