"""The states of a device's health, and the transitions between them. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """What the scheduler believes of a device. The value is the word for the state in messages."""

    HEALTHY = "healthy"
    """The device does its work as planned."""
    SLOW = "slow"
    """The device answers, but its work is late: it gets a smaller share, or only stages bytes."""
    SUSPECT = "suspect"
    """A heartbeat was missed or a call failed: the device gets no new work until it answers."""
    LOST = "lost"
    """The device gets no work until a try succeeds."""
    PROBATION = "probation"
    """The device is being tried."""
    BACK = "back"
    """The device works again, with a share that grows with each good piece."""


@dataclass(frozen=True)
class Transition:
    """One change of a device's state.

    If both `before` and `after` are SLOW, the slow device had a smaller share of the work before,
    and has none now. It then only passes on bytes that are staged through it.
    """

    at_s: float
    """Seconds on the caller's clock."""
    before: State
    after: State
    why: str

    def __str__(self) -> str:
        return f"{self.at_s:.3f} s: {self.before.value} -> {self.after.value}: {self.why}"
