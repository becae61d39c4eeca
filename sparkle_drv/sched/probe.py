"""Measures a device: classes of work, the way to and from the host, and what waiting costs.

The only file of the scheduler that times anything but the runner. Each measurement waits for its
fence; the first of each size are dropped.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.errors import OutOfDeviceMemory

from .line import Point
from .operations import Class

EACH = 3
"""Measurements of one size that count."""
WARM_S = 1e-3
"""Work is done again and again for so long before it is measured, once at least: after a pause
clocks, caches and sleeping threads make the first few of short runs slow."""
FIRST_WARM_S = 5e-3
"""The same for the first size of a class, and after one run that does not count at all: in that one
code is loaded and threads start, which may take longer than any warming up."""
BUDGET_S = 0.35
"""Seconds for one class on one device; the largest size is the last that fits."""
MOST_S = 2.5
"""Seconds that may go by meanwhile, what is not work included: compiling for a size."""
MOST_SIZES, VIRTUAL_SIZES = 9, 6
"""The latter by a device's own clock: work takes longer than that says, and what is measured must
not depend on how long."""
TRANSFERS = (1 << 12, 1 << 16, 1 << 20, 1 << 23)
"""Bytes of the transfers that a link is fitted to."""

Clock = Callable[[], float]


def speeds(dev: Device, kind: Class, clock: Clock = time.perf_counter) -> list[Point]:
    """(size, seconds) of a class of work on a device, from small to as large as BUDGET_S allows,
    by this clock.

    Empty when the device cannot do it. Raises what a device that fails raises.
    """
    points: list[Point] = []
    virtual = clock != time.perf_counter
    begin = clock()
    for i in range(VIRTUAL_SIZES if virtual else MOST_SIZES):
        last = clock()
        try:
            run, size = kind.probe(dev, i)
            if i == 0 and not virtual:
                _waited(run)
            times = _timed(partial(_waited, run), clock, WARM_S if i else FIRST_WARM_S)
        except (OutOfDeviceMemory, ValueError, TypeError, LookupError):
            break  # too large for it, or not one of its operations
        points += [(size, t) for t in times]
        # The next size does four to eight times the work, once more than EACH times.
        if clock() - begin + 8 * (EACH + 1) * min(times) > BUDGET_S:
            break
        now = clock()
        if now - begin + 8 * (now - last) > MOST_S:
            break
    return points


def links(dev: Device, clock: Clock = time.perf_counter) -> tuple[list[Point], list[Point]]:
    """(host to device, device to host): (bytes, seconds)."""
    into: list[Point] = []
    back: list[Point] = []
    for nbytes in TRANSFERS:
        host = np.ones(nbytes, np.uint8)
        with contextlib.suppress(OutOfDeviceMemory), dev.buffer(nbytes) as buffer:
            queue = dev.default_queue
            for points, move in ((into, queue.write), (back, queue.read)):
                begun = partial(move, buffer, host)
                points += [(float(nbytes), t) for t in _timed(partial(_done, begun), clock)]
    return into, back


def latency(dev: Device, clock: Clock = time.perf_counter) -> float:
    """Seconds of a launch that does nothing and the wait for it; the least of some."""
    kernel = dev.kernel("noop")
    queue = dev.default_queue
    times: list[float] = []
    for _ in range(5):
        times += _timed(lambda: queue.launch(kernel, groups=(1, 1, 1)).wait(), clock)
    return min(times)


def _waited(run: Callable[[], Any]) -> None:
    fence = getattr(run(), "fence", None)
    if fence is not None:
        fence.wait()


def _done(move: Callable[[], Fence]) -> None:
    move().wait()


def _timed(run: Callable[[], object], clock: Clock, warm_s: float = WARM_S) -> list[float]:
    warm = clock() + warm_s
    run()
    while clock == time.perf_counter and clock() < warm:
        run()
    times = []
    for _ in range(EACH):
        begin = clock()
        run()
        times.append(clock() - begin)
    return times
