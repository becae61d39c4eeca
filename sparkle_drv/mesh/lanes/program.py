"""Programs: copies and reductions as data, with what each step waits for.

Planners make programs (collective/), the runner runs them (runner.py), predictors and simulators
read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol


class Lane(NamedTuple):
    """Runs steps one after another: one direction of a link, or a device's queue."""

    source: str
    to: str = ""
    """The other end of the link; "" for a lane of the queue of `source`."""

    def __str__(self) -> str:
        return f"{self.source} to {self.to}" if self.to else self.source


class Region(NamedTuple):
    """A range of bytes in one of the memories of a place."""

    place: str
    memory: str
    """Which memory of the place: "data" is the array that takes part, "out" another array for the
    result, "temp" scratch memory."""
    offset: int
    nbytes: int


@dataclass(frozen=True)
class RegionCopy:
    """Copies bytes from one region to another. If the step's lane is a device's queue, that device
    makes the copy by itself, without a transport.
    """

    src: Region
    dst: Region

    def __str__(self) -> str:
        return f"copy of {self.src.nbytes} bytes from {self.src.place} to {self.dst.place}"


@dataclass(frozen=True)
class Reduce:
    """dst = op(dst, src), element by element; `op` is chosen when the program is run, such as
    "sum". `src` may be in memory of another device that the device of `dst` can read.
    """

    src: Region
    dst: Region

    def __str__(self) -> str:
        return f"reduction of {self.dst.nbytes} bytes on {self.dst.place}"


@dataclass(frozen=True)
class Step:
    """One step of a program: what a lane does once the steps in `after` have ended."""

    number: int
    """Index of the step in the program."""
    lane: Lane
    what: Any
    """RegionCopy, Reduce, or anything else that the runner's caller can begin."""
    after: tuple[int, ...] = ()
    """Numbers of steps, all lower than this one, that must end without error first."""
    predicted_s: float = 0.0
    deadline_s: float = 30.0
    """Seconds from the step's beginning after which it has failed."""

    def __str__(self) -> str:
        return str(self.what)


class Begun(Protocol):
    """Work in progress: a Fence, or an object that needs calls of `wait` to end its work."""

    def wait(self, timeout_s: float, /) -> object:
        """Returns when the work has ended. Raises FenceTimeout after `timeout_s` seconds; may be
        called again.
        """


@dataclass(frozen=True)
class Program:
    """Steps in the order of their numbers. The steps of one lane run in this order. Raises
    ValueError for a step that waits for a later one.
    """

    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        for at, step in enumerate(self.steps):
            if step.number != at:
                raise ValueError(f"steps[{at}].number: expected {at}, got {step.number}")
            if any(not 0 <= before < at for before in step.after):
                raise ValueError(
                    f"steps: expected step {at} to wait for earlier ones, got {step.after}"
                )
