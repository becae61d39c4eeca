"""Measures classes of work on a device; mesh/links/probe.py measures links.

Each measurement waits until its work has ended. For each size of the work, the first measurements
are warm-up and are dropped.
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
from sparkle_drv.sched.model.work_class import Class

FIRST_WARM_S = 5e-3
"""Seconds of repeated work before the first measurement of a class, in place of WARM_S. One run
before that does not count at all: it loads code and starts threads, which may take longer than any
warm-up."""
BUDGET_S = 0.05
"""Seconds of work for one class on one device. The largest size is the last that fits. Time beside
the work does not count: the first run alone may take this long to load code.

The first call of a class waits for its probes. With this budget that took 0.03 s to 0.2 s in all on
two busy cores. With 0.35 s of work it took 0.1 s to 2 s, because of the operands of the largest
sizes. The regret in benchmarks/juggling.py stayed 0 %. First predictions were off by a median of 26
% instead of 20 %; the first runs of a plan correct that."""
MOST_S = 2.5
"""Seconds that all probes of a class may take, including compiling for a size."""
SOON_S = 0.2
"""The limit in place of MOST_S for a device where host memory needs no copy. Nothing is compiled
for a size there; time beside the work goes into operands. That took over a second on a machine with
eight runnable threads a core."""
MOST_SIZES, VIRTUAL_SIZES = 9, 6
"""Most sizes that are measured. VIRTUAL_SIZES is for a device with its own clock: work takes longer
than that clock says, and results must not depend on how long."""


def speeds(dev: Device, kind: Class, clock: Clock = time.perf_counter) -> list[Point]:
    """Returns (size, seconds) of a class of work on a device by this clock, from small to as large
    as BUDGET_S allows.

    `kind` has probes. Returns [] if the device cannot do the work. A size that is too large ends
    the list. Raises the errors that mesh/links/probe.py lists as FAILURES.
    """
    assert kind.probe is not None
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
        except MemoryError:  # OutOfDeviceMemory is a MemoryError, too
            if not points:
                raise
            break
        except SparkleError:
            raise
        except (ValueError, TypeError, LookupError):
            break  # the work is too large for the device, or the device lacks the operation
        points += [(size, t) for t in times]
        # The probe stops if the next size would take too long. The next size has four to eight
        # times the work, and runs EACH + 1 times. `beside` is the time that this size took besides
        # its runs. It grows with the operands. For the first size it includes the loading of code,
        # so it says little about the next size.
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
