"""Measures classes of work on a device; mesh/links/probe.py measures links.

The only file of the scheduler that times anything but the runner. Each measurement waits for its
fence; the first of each size are dropped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from sparkle_drv.core.device import Device
from sparkle_drv.errors import SparkleError
from sparkle_drv.mesh.links.line import LEAST_SIZES, Point
from sparkle_drv.mesh.links.probe import EACH, WARM_S, Clock, fenced, timed, usable_points
from sparkle_drv.sched.model.operations import Class

FIRST_WARM_S = 5e-3
"""WARM_S for the first size of a class, after one run that does not count at all: in that one code
is loaded and threads start, which may take longer than any warming up."""
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
            times = timed(partial(_waited, run), clock, WARM_S if i else FIRST_WARM_S, left)
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
    return usable_points(points)


def _waited(run: Callable[[], Any]) -> None:
    fenced(run())
