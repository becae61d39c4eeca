"""Measures a device: classes of work, the way to and from the host, and what waiting costs.

The only file of the scheduler that times anything but the runner. Each measurement waits for its
fence; the first of each size are dropped.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.errors import SparkleError
from sparkle_drv.mesh.line import LEAST_SIZES, Point, usable
from sparkle_drv.sched.model.operations import Class

EACH = 3
"""Measurements of one size that count."""
WARM_S = 1e-3
"""Work is done again and again for so long before it is measured, once at least: after a pause
clocks, caches and sleeping threads make the first few of short runs slow."""
FIRST_WARM_S = 5e-3
"""The same for the first size of a class, and after one run that does not count at all: in that one
code is loaded and threads start, which may take longer than any warming up."""
BUDGET_S = 0.05
"""Seconds of work for one class on one device; the largest size is the last that fits. What is
not work does not count: the first run alone may take as long, to load code.

The first call of a class waits for this. On two busy cores it took 0.03 s to 0.2 s in all; with
0.35 s of work it took 0.1 s to 2 s, for the operands of the largest sizes. The regret of
benchmarks/juggling.py stayed 0 %; first predictions were off by a median of 26 % rather than 20 %,
which the first runs of a plan correct."""
MOST_S = 2.5
"""Seconds that may go by meanwhile, what is not work included: compiling for a size."""
SOON_S = 0.2
"""The same where host memory needs no copy: nothing is compiled for a size there, and what is not
work is operands, which took over a second on a machine with eight runnable threads a core."""
MOST_SIZES, VIRTUAL_SIZES = 9, 6
"""The latter by a device's own clock: work takes longer than that says, and what is measured must
not depend on how long."""
TRANSFERS = (1 << 12, 1 << 16, 1 << 20, 1 << 23)
"""Bytes of the transfers that a link is fitted to."""
LINK_S, MOST_LINK_S = 0.1, 1.0
"""Seconds for the transfers one way, the largest is the last that fits; and for LEAST_SIZES."""

FAILURES = (SparkleError, OSError, MemoryError)
"""What a probe may fail with."""


class NoTimes(SparkleError):
    """A clock that says nothing: no time that was measured can be one."""


Clock = Callable[[], float]


def speeds(dev: Device, kind: Class, clock: Clock = time.perf_counter) -> list[Point]:
    """(size, seconds) of a class of work on a device, from small to as large as BUDGET_S allows,
    by this clock.

    Empty when the device cannot do it. Raises FAILURES; what is too large for it is no failure.
    """
    points: list[Point] = []
    virtual = clock != time.perf_counter
    most_s = SOON_S if dev.info.unified else MOST_S
    begin, work = clock(), 0.0
    for i in range(VIRTUAL_SIZES if virtual else MOST_SIZES):
        last = clock()
        left = BUDGET_S - work if not virtual else math.inf
        try:
            run, size = kind.probe(dev, i)
            if i == 0 and not virtual:
                _waited(run)
            times = _timed(partial(_waited, run), clock, WARM_S if i else FIRST_WARM_S, left)
        except MemoryError:  # OutOfDeviceMemory is one, too
            if not points:
                raise
            break
        except SparkleError:
            raise
        except (ValueError, TypeError, LookupError):
            break  # too large for it, or not one of its operations
        points += [(size, t) for t in times]
        # The second is measured, once at least, unless that would take longer than all may.
        # The next size does four to eight times the work, once more than EACH times. What goes by
        # beside the work grows with the operands; but for the first, which loads code and threads.
        each, now = min(times), clock()
        work += (len(times) + 1) * each
        beside = max(0.0, now - last - (len(times) + 1) * each)
        usual = now - begin + 8 * (EACH + 1) * each + (4 * beside if i else beside)
        if i + 1 >= LEAST_SIZES:
            if work + 8 * (EACH + 1) * each > BUDGET_S or usual > most_s:
                break
        elif now - begin + 8 * 2 * each > MOST_S:
            break
    return _usable(points)


def _usable(points: list[Point]) -> list[Point]:
    found = [point for point in points if usable(point)]
    if points and not found:
        raise NoTimes(f"no time that was measured can be one: {points[0][1]} s")
    return found


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


def way(
    source: Device, to: Device, move: Callable[[Array, Array], None],
    clock: Clock = time.perf_counter,
) -> list[Point]:  # fmt: skip
    """(bytes, seconds) of `move`, which fills an Array of `to` with one of `source`, and of taking
    memory for it. Raises FAILURES.
    """

    def between(nbytes: int, stack: contextlib.ExitStack) -> Callable[[], object]:
        x = source.array(_host(nbytes).view(np.float32))
        stack.callback(x.close)

        def once() -> None:
            made = to.empty(x.shape, x.dtype)
            move(x, made)
            _fenced(made)
            made.close()

        return once

    return _moves(between, clock)


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
                times = _timed(prepared(nbytes, stack), clock, WARM_S, left)
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
    return _usable(points)


def _host(nbytes: int) -> np.ndarray[Any, Any]:
    return np.ones(nbytes, np.uint8)


def _waited(run: Callable[[], Any]) -> None:
    _fenced(run())


def _fenced(made: Any) -> None:
    fence = getattr(made, "fence", None)
    if fence is not None:
        fence.wait()


def _timed(
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
