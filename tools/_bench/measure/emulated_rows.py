"""Rows of emulated devices. An emulator has no meaningful time, so two other costs are measured:
the caller's time outside the emulated kernel driver's ioctls, and the requests that a submission
sends to that driver.

A sample is one prepared launch; the wait comes after the clock has stopped. The emulated kernel
driver reports the time inside its calls (sparkle_drv.testing.emulator.seam). Called by engine.py
and runner.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from _console.problems import UsageError

from _bench.jobs.job import Job
from _bench.rows.results import Measured, Submission

from . import timing
from .bound import Bound
from .stop_rule import StopRule

if TYPE_CHECKING:
    import sparkle_drv as sp

NO_TIME = float("nan")  # in place of a device's time, which an emulator lacks


def check_job(job: Job, mode: str, info: sp.DeviceInfo) -> None:
    """Raises UsageError if the device is emulated and the measurement compares times: in mode
    pipeline, or of a job with rivals.
    """
    if mode == "pipeline" or job.rivals:
        refuse(info, "mode pipeline" if mode == "pipeline" else "--vs")


def refuse(info: sp.DeviceInfo, what: str) -> None:
    """Raises UsageError when the device is emulated, because `what` needs real times of
    the device.
    """
    if info.emulated:
        raise UsageError(f"{what}: {info.uri} is emulated, so its times mean nothing")


@dataclass
class Submitting:
    """Takes samples of one launch each, and uses the sets of operands in turn."""

    bound: Bound
    batch: int = 1
    primary: str = "host"
    ioctls: int = 0
    launches: int = 0
    _next: int = 0
    _goes: list[Callable[[], int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        bound = self.bound
        self._goes = [
            bound.queue.prepare(bound.kernel, *p.arguments, **bound.launch_options)
            for p in bound.placements
        ]

    def sample(self) -> timing.Sample:
        from sparkle_drv.testing.emulator import seam

        go, queue = self._goes[self._next], self.bound.queue
        self._next = (self._next + 1) % len(self._goes)
        before = seam()
        start = time.perf_counter_ns()
        value = go()
        host = time.perf_counter_ns() - start
        inside = seam().since(before)
        queue.fence(value).wait(timeout_s=self.bound.launch_timeout_s)
        self.ioctls += inside.ioctls
        self.launches += 1
        return NO_TIME, float(host - inside.ns)

    def close(self) -> None:
        self._goes.clear()


def take(bound: Bound, rule: StopRule) -> tuple[Measured, Submission | None]:
    """Takes host times until `rule` gives a reason to stop. The Submission is None if the emulated
    card does not count its work.
    """
    backend: Any = bound.device._backend
    from sparkle_drv.testing import emu

    sampler = Submitting(bound)
    before, caches_before = backend.counters(), emu.caches(bound.device)
    measured = timing.take(sampler, rule)
    after, caches_after = backend.counters(), emu.caches(bound.device)
    sampler.close()
    measured = replace(measured, device_ns=())
    if caches_before is None or caches_after is None:
        return measured, None
    dispatches = after["dispatches"] - before["dispatches"]
    submission = Submission.of(
        sampler.ioctls / sampler.launches,
        (after["ib_ndw"] - before["ib_ndw"]) / dispatches,
        caches_before,
        caches_after,
        sampler.launches,
    )
    return measured, submission
