"""A program: copies and reductions as data, with what each step waits for. Pure.

Planners make programs (collective/), the runner runs them (runner.py), predictors and simulators
read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol


class Lane(NamedTuple):
    """What runs steps one after the other: one direction of a link, or a device's queue."""

    source: str
    to: str = ""
    """The other end of the link; "": a lane of the queue of `source`."""

    def __str__(self) -> str:
        return f"{self.source} to {self.to}" if self.to else self.source


class Region(NamedTuple):
    """Bytes of a memory of one place."""

    place: str
    memory: str
    """"data": the array that takes part; "out": another one that gets the result; "temp": scratch
    memory. One of each at a place.
    """
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Copy:
    """Bytes from one place to another; in a lane of a queue, that queue does it by itself."""

    src: Region
    dst: Region

    def __str__(self) -> str:
        return f"copy of {self.src.nbytes} bytes from {self.src.place} to {self.dst.place}"


@dataclass(frozen=True)
class Reduce:
    """dst = op(dst, src), element by element; `src` may be of another place that `dst`'s reads."""

    src: Region
    dst: Region

    def __str__(self) -> str:
        return f"reduction of {self.dst.nbytes} bytes on {self.dst.place}"


@dataclass(frozen=True)
class Step:
    """One step of a lane."""

    number: int
    """Its index in the program."""
    lane: Lane
    what: Any
    """Copy, Reduce, or what else the caller of the runner knows how to begin."""
    after: tuple[int, ...] = ()
    """Numbers of steps, all lower than this one, that must have ended well."""
    predicted_s: float = 0.0
    deadline_s: float = 30.0
    """Seconds from its beginning after which it has failed."""

    def __str__(self) -> str:
        return str(self.what)


class Begun(Protocol):
    """Work under way: a Fence, or what carries work on while it is waited for."""

    def wait(self, timeout_s: float, /) -> object:
        """Return at its end; FenceTimeout after `timeout_s` seconds, and may be called again."""


@dataclass(frozen=True)
class Program:
    """Steps by number; those of one lane run in this order."""

    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        for at, step in enumerate(self.steps):
            if step.number != at:
                raise ValueError(f"steps: expected number {at}, got {step.number}")
            if any(not 0 <= before < at for before in step.after):
                raise ValueError(f"steps: step {at} waits for {step.after}, expected 0 to {at - 1}")
