"""Measures the ways to and from the host; survey.py measures those between devices.

Each measurement waits for its fence; the first of each size is dropped.
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
"""Work is done again and again for so long before it is measured, once at least: after a pause
clocks, caches and sleeping threads make the first few of short runs slow."""
TRANSFERS = (1 << 12, 1 << 16, 1 << 20, 1 << 23)
"""Bytes of the transfers that a link is fitted to."""
LINK_S, MOST_LINK_S = 0.1, 1.0
"""Seconds for the transfers one way, the largest is the last that fits; and for LEAST_SIZES."""

FAILURES = (SparkleError, OSError, MemoryError)
"""What a probe may fail with."""


class NoTimes(SparkleError):
    """A clock that says nothing: no time that was measured can be one."""


Clock = Callable[[], float]


def links(dev: Device, clock: Clock = time.perf_counter) -> tuple[list[Point], list[Point]]:
    """(host to device, device to host): (bytes, seconds), the taking of memory at the end of the
    way included. Raises FAILURES.
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
"""(bytes, what is closed afterwards) -> a transfer to its end."""


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
        # The next one has eight to sixteen times the bytes, and is done once more than EACH times.
        spent = time.perf_counter() - begin
        enough = i + 1 >= LEAST_SIZES
        runs, limit_s = (EACH + 1, LINK_S) if enough else (2, MOST_LINK_S)
        if not virtual and spent + 16 * runs * min(times) > limit_s:
            break
    return usable_points(points)


def _host(nbytes: int) -> np.ndarray[Any, Any]:
    return np.ones(nbytes, np.uint8)


def usable_points(points: list[Point]) -> list[Point]:
    """Those that can have been measured. NoTimes: there are points, and none can."""
    found = [point for point in points if usable(point)]
    if points and not found:
        raise NoTimes(f"no time that was measured can be one: {points[0][1]} s")
    return found


def fenced(made: Any) -> None:
    """Wait until an Array, or what else has a fence, is done."""
    fence = getattr(made, "fence", None)
    if fence is not None:
        fence.wait()


def timed(
    run: Callable[[], object], clock: Clock, warm_s: float = WARM_S, left_s: float = math.inf
) -> list[float]:
    """Seconds of each of EACH runs, or of fewer that take `left_s` together, of one at least."""
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
