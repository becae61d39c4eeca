"""The state of a plan that serves all calls of one shape (class KeptPlan).

KeptPlan decides which of these calls are measured, and when the device is chosen anew. It only does
arithmetic: it reads no clock and calls no device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from sparkle_drv.core.device import Device
from sparkle_drv.sched.model.plan import Plan
from sparkle_drv.sched.model.work import Measured

FIRST = 3
"""Calls at the start of a new plan that are all measured."""
SAMPLE = 16
"""Afterwards one call in this many is measured. A measured asynchronous call waits for its end."""
SYNC_S = 0.1
"""Seconds of synchronous calls between two measurements, if that measures more often than
SAMPLE.
"""
SAMPLE_S = 2e-3
"""Seconds of short calls between two measurements, if that measures less often than SAMPLE. A
measurement costs about 15 us, and deciding again as much. Without this rule a product of 16 cubed
takes 9 us more."""
SETTLED = 24
"""Measured runs of a plan after which the device is chosen anew."""
EARLY = 1 + FIRST
"""Measured runs of the first plan of a shape after which the device is chosen anew. The first runs
correct the probes, so a decision by the probes alone must not last."""
MOVED = 0.1
"""Change of the operation's predicted time, as log of the ratio, above which the device is chosen
anew at once."""


@dataclass
class KeptPlan:
    """The plan for calls of one shape, with the state of its measurements."""

    plan: Plan
    device: Device
    compute_s: float
    """Predicted seconds of the operation itself, without transfers."""
    slack_s: float = math.inf
    """Seconds of other work queued on the plan's device beyond which another device would be
    faster."""
    until: int = SETTLED
    """Value of `runs` at which the device is chosen anew."""
    sync: bool = False
    """Whether each call waits for its result anyway. Otherwise a measured call runs step by step
    (timed_steps.py), which costs time."""
    direct: bool = True
    """Whether the call needs nothing but `ops` with the caller's own arguments (run/calls.py)."""
    runs: int = 0
    """Calls so far, without those that `spare` let pass."""
    spare: int = 0
    """Calls that may still go to the device without any bookkeeping (run/calls.py)."""
    measured: Measured | None = None
    """Times of the last measured run; None before the first."""
    moved: bool = False
    """Whether the predicted time of the operation has changed by more than MOVED."""

    @property
    def so_far(self) -> Plan:
        """The plan, with the times of its last measured run."""
        return replace(self.plan, measured=self.measured)

    @property
    def due(self) -> bool:
        """Whether the next call must choose the device anew."""
        return self.moved or (self.runs >= self.until and self.spare <= 0)

    def begins(self) -> bool:
        """Starts a run and returns whether to measure it. The first run is not measured: it may
        allocate and compile.
        """
        if self.spare > 0:
            self.spare -= 1
            return False
        self.runs += 1
        return self.runs > 1

    def took(self, measured: Measured) -> float | None:
        """Stores the times of a measured run. Returns the seconds of the operation, for the cost
        model to learn from, or None if only the whole call was timed.
        """
        self.measured = measured
        if measured.compute_s is None and FIRST < self.runs < self.until:
            self.rests()
        return measured.compute_s

    def ran(self, now_s: float) -> None:
        """Compares the operation's new prediction `now_s` with the plan's. If they differ too much,
        the device is chosen anew. If they agree and FIRST calls have been measured, the next calls
        pass without a measurement.
        """
        if abs(math.log(now_s / self.compute_s)) > MOVED:
            self.moved = True
        elif 1 + FIRST <= self.runs < self.until:
            self.rests()

    def rests(self) -> None:
        """Sets `spare`, the number of next calls that are not measured."""
        each = max(self.measured.total_s if self.measured else 0.0, 1e-9)
        calls = min(SAMPLE, int(SYNC_S / each)) if self.sync else SAMPLE
        self.spare = max(1, calls, int(SAMPLE_S / each)) - 1

    def follows(self, before: KeptPlan) -> None:
        """Takes over the state of `before`, the previous plan, which has the same device."""
        if before.moved and before.runs < before.until:
            self.runs, self.until = before.runs, before.until
        elif before.until > EARLY:
            self.runs = 1 + FIRST
        if self.runs > FIRST:
            self.measured = before.measured
            self.rests()
