"""The states of a device's health, and the transitions between them. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """What is believed of a device; the value is the word for it in messages."""

    HEALTHY = "healthy"
    """It does its work as planned."""
    SLOW = "slow"
    """It answers, but its work is late: it gets a smaller share, or only stages."""
    SUSPECT = "suspect"
    """A heartbeat was missed or a call failed: no new work until it answers."""
    LOST = "lost"
    """It gets no work until a try succeeds."""
    PROBATION = "probation"
    """It is being tried."""
    BACK = "back"
    """It works again, with a share that grows with each good piece."""


@dataclass(frozen=True)
class Transition:
    """One change of state. From slow to slow: the device now only stages."""

    at_s: float
    """Seconds on the caller's clock."""
    before: State
    after: State
    why: str

    def __str__(self) -> str:
        return f"{self.at_s:.3f} s: {self.before.value} -> {self.after.value}: {self.why}"
