"""The states of a device's health, and the story that tells why it is in one. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """What is believed of a device; the value is the word for it."""

    HEALTHY = "healthy"
    """It does what is planned for it."""
    SLOW = "slow"
    """It answers, but its work is late: a smaller share, or none but staging."""
    SUSPECT = "suspect"
    """A heartbeat was missed or a call failed there: no new work until it answers."""
    LOST = "lost"
    """It takes no part until it is tried."""
    PROBATION = "probation"
    """It is being tried."""
    BACK = "back"
    """It takes part again, with a share that grows with each good piece."""


@dataclass(frozen=True)
class Transition:
    """One step of a device's story. Slow twice in a row: its share becomes none but staging."""

    at_s: float
    """When, on the clock of whoever calls."""
    before: State
    after: State
    why: str

    def __str__(self) -> str:
        return f"{self.at_s:.3f} s: {self.before.value} -> {self.after.value}: {self.why}"
