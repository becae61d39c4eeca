"""A plan that is kept for the calls of one shape: which of them are measured, and when it is
decided anew. State and arithmetic only: no clock, no device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from sparkle_drv.core.device import Device
from sparkle_drv.sched.model.work import Measured, Plan

FIRST = 3
"""Calls of a new plan that are measured one by one."""
SAMPLE = 16
"""Then one in so many is; an asynchronous call that is measured is waited for."""
SYNC_S = 0.1
"""Of calls that are waited for anyway, one in as many as take so long, if those are fewer."""
SAMPLE_S = 2e-3
"""Of short calls, one in as many as take so long: it costs some 15 us, and now and then to decide
anew as much. Without this rule a product of 16 cubed takes 9 us more."""
SETTLED = 24
"""Measured runs of one plan, from first to last, after which it is decided anew."""
EARLY = 1 + FIRST
"""The same of the first plan of a shape: what the probes said is corrected by its first runs, and
what was decided by it must not stand."""
MOVED = 0.1
"""log of how far from what the plan says the operation may be predicted now: beyond that it is
decided anew at once."""


@dataclass
class Kept:
    """A plan for calls of one shape, and what became of it."""

    plan: Plan
    device: Device
    compute_s: float
    """What the plan said of the operation itself."""
    slack_s: float = math.inf
    """How long its device may be busy with other work before another one would be faster."""
    until: int = SETTLED
    """Runs after which it is decided anew."""
    sync: bool = False
    """Are its calls done and waited for in one go, measured or not? Else measured ones are taken
    step by step (stepwise.py), which takes time."""
    runs: int = 0
    """Not counting those that `spare` let pass."""
    spare: int = 0
    """Calls that may go to the device with nothing else done for them (run/repeated.py)."""
    measured: Measured | None = None
    """Of the last measured run; None: none yet."""
    moved: bool = False
    """Is what it says of the operation no longer what is predicted?"""

    @property
    def so_far(self) -> Plan:
        """The plan, with what its last measured run took."""
        return replace(self.plan, measured=self.measured)

    @property
    def due(self) -> bool:
        """Is the next call to be decided anew?"""
        return self.moved or (self.runs >= self.until and self.spare <= 0)

    def begins(self) -> bool:
        """A run begins; is it one to measure? Not the first: it may allocate and compile."""
        if self.spare > 0:
            self.spare -= 1
            return False
        self.runs += 1
        return self.runs > 1

    def took(self, measured: Measured) -> float | None:
        """A run was measured: seconds of the operation to learn from. None: it was measured as a
        whole, which says nothing of the operation.
        """
        self.measured = measured
        if measured.compute_s is None and FIRST < self.runs < self.until:
            self.rests()
        return measured.compute_s

    def ran(self, now_s: float) -> None:
        """A run was learnt from, and the operation is predicted to take `now_s` since. Those that
        follow need not be measured, if it was not one of the first.
        """
        if abs(math.log(now_s / self.compute_s)) > MOVED:
            self.moved = True
        elif 1 + FIRST <= self.runs < self.until:
            self.rests()

    def rests(self) -> None:
        """Let so many calls pass as need not be measured."""
        each = max(self.measured.total_s if self.measured else 0.0, 1e-9)
        calls = min(SAMPLE, int(SYNC_S / each)) if self.sync else SAMPLE
        self.spare = max(1, calls, int(SAMPLE_S / each)) - 1

    def follows(self, before: Kept) -> None:
        """This one was decided for the same device: it goes on where `before` was."""
        if before.moved and before.runs < before.until:
            self.runs, self.until = before.runs, before.until
        elif before.until > EARLY:
            self.runs = 1 + FIRST
        if self.runs > FIRST:
            self.measured = before.measured
            self.rests()
