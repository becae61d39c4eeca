"""Shares: which device does which units of a call, as data and as text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Piece(NamedTuple):
    """Units [begin, end) of the axis that is cut, which one launch computes."""

    begin: int
    end: int

    @property
    def units(self) -> int:
        """The number of units in this piece."""
        return self.end - self.begin

    def __str__(self) -> str:
        return f"{self.begin}-{self.end}"


@dataclass(frozen=True)
class Shares:
    """A call, cut among devices. Each unit is in exactly one piece."""

    count: int
    """Number of units in all."""
    parts: Mapping[str, tuple[Piece, ...]]
    """The pieces of each device that takes part, in order, by URI."""
    tail: tuple[Piece, ...]
    """Shrinking chunks for any free device, by the rule of tail.py."""
    takers: tuple[str, ...]
    """For each chunk of the tail, the URI of the device that is predicted to take it."""
    predicted_s: float
    """Seconds until the last result is on the host."""
    bound_s: float
    """Seconds that every schedule takes at least."""
    left_out: Mapping[str, str]
    """Why a device does not take part, by URI."""

    @property
    def gap(self) -> float:
        """How far the predicted time is above the bound: predicted_s / bound_s - 1. It is inf if
        bound_s is 0.
        """
        return self.predicted_s / self.bound_s - 1 if self.bound_s else math.inf

    def units(self, uri: str) -> int:
        """Returns the units that a device is predicted to do, including its chunks of the tail."""
        taken = sum(p.units for p, by in zip(self.tail, self.takers, strict=True) if by == uri)
        return sum(piece.units for piece in self.parts.get(uri, ())) + taken

    def __str__(self) -> str:
        n = len(self.parts)
        return (
            f"{self.count} units on {n} device{'s' if n != 1 else ''}, predicted "
            f"{self.predicted_s:.3g} s, at least {self.bound_s:.3g} s ({self.gap:.1%} above)"
        )

    def explain(self) -> str:
        """Returns the plan as `str` gives it, then each device, the tail, and devices left out with
        the reason.
        """
        lines = [str(self)]
        for uri, pieces in self.parts.items():
            units = self.units(uri)
            lines.append(
                f"  {uri}: {units} units ({units / self.count:.1%}), planned in "
                f"{len(pieces)} piece{'s' if len(pieces) != 1 else ''}: {_shown(pieces)}"
            )
        if self.tail:
            units = sum(piece.units for piece in self.tail)
            lines.append(
                f"  tail: {units} units ({units / self.count:.1%}) in {len(self.tail)} chunks of "
                f"{self.tail[0].units} to {self.tail[-1].units} units, for whoever is free"
            )
        lines += [f"  {uri} is left out: {why}" for uri, why in self.left_out.items()]
        return "\n".join(lines)


MOST_SHOWN = 4
"""Pieces of a device that `explain` prints."""


def _shown(pieces: tuple[Piece, ...]) -> str:
    text = ", ".join(map(str, pieces[:MOST_SHOWN]))
    return text if len(pieces) <= MOST_SHOWN else f"{text}, ..."
