"""A plan kept for all calls of one shape: which calls are measured, and when it is decided again.
State and arithmetic only: no clock, no device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from sparkle_drv.core.device import Device
from sparkle_drv.sched.model.work import Measured, Plan

FIRST = 3
"""Calls of a new plan that are measured one by one."""
SAMPLE = 16
"""Afterwards one call in this many is measured. A measured asynchronous call is waited for."""
SYNC_S = 0.1
"""For synchronous calls: one measurement per this much time, if that is more often."""
SAMPLE_S = 2e-3
"""For short calls: one measurement per this much time, if that is less often. A measurement costs
about 15 us, and deciding again as much. Without this rule a product of 16 cubed takes 9 us more."""
SETTLED = 24
"""Measured runs of one plan after which it is decided again."""
EARLY = 1 + FIRST
"""The same for the first plan of a shape. Its first runs correct the probes, so a decision by the
probes alone must not stand."""
MOVED = 0.1
"""The plan is decided again at once when the predicted time of the operation has changed by more
than this, as log of the ratio."""


@dataclass
class Kept:
    """A plan for calls of one shape, with the state of its measurements."""

    plan: Plan
    device: Device
    compute_s: float
    """Predicted seconds of the operation itself."""
    slack_s: float = math.inf
    """Seconds of other work on its device beyond which another device would be faster."""
    until: int = SETTLED
    """Runs after which it is decided again."""
    sync: bool = False
    """Does each call wait for its result anyway? Otherwise a measured call is taken step by step
    (stepwise.py), which costs time."""
    runs: int = 0
    """Runs, without those that `spare` let pass."""
    spare: int = 0
    """Calls that may go to the device without any bookkeeping (run/repeated.py)."""
    measured: Measured | None = None
    """Times of the last measured run; None before the first."""
    moved: bool = False
    """Has the predicted time of the operation changed by more than MOVED?"""

    @property
    def so_far(self) -> Plan:
        """The plan, with what its last measured run took."""
        return replace(self.plan, measured=self.measured)

    @property
    def due(self) -> bool:
        """Must the next call be decided again?"""
        return self.moved or (self.runs >= self.until and self.spare <= 0)

    def begins(self) -> bool:
        """Starts a run. Is it measured? The first is not: it may allocate and compile."""
        if self.spare > 0:
            self.spare -= 1
            return False
        self.runs += 1
        return self.runs > 1

    def took(self, measured: Measured) -> float | None:
        """Takes the times of a measured run. Returns the seconds of the operation to learn from;
        None if only the whole call was timed.
        """
        self.measured = measured
        if measured.compute_s is None and FIRST < self.runs < self.until:
            self.rests()
        return measured.compute_s

    def ran(self, now_s: float) -> None:
        """Compares the new prediction `now_s` with the plan's. If they agree, the next calls need
        no measurement, except among the first.
        """
        if abs(math.log(now_s / self.compute_s)) > MOVED:
            self.moved = True
        elif 1 + FIRST <= self.runs < self.until:
            self.rests()

    def rests(self) -> None:
        """Lets the next calls pass unmeasured."""
        each = max(self.measured.total_s if self.measured else 0.0, 1e-9)
        calls = min(SAMPLE, int(SYNC_S / each)) if self.sync else SAMPLE
        self.spare = max(1, calls, int(SAMPLE_S / each)) - 1

    def follows(self, before: Kept) -> None:
        """Takes over the state of `before`, a plan for the same device."""
        if before.moved and before.runs < before.until:
            self.runs, self.until = before.runs, before.until
        elif before.until > EARLY:
            self.runs = 1 + FIRST
        if self.runs > FIRST:
            self.measured = before.measured
            self.rests()
