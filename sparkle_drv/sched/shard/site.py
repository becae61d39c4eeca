"""One device that may do a part of a call, as numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sparkle_drv.mesh.links.line import Line

NO_TIME = Line(0.0, 0.0)
"""Times of the link between the host and a device that shares its memory."""


@dataclass(frozen=True)
class Site:
    """A device, and what parts of one call cost there. The call is cut along one given axis.

    A unit is the smallest length that is cut from that axis, for example 16 rows. The operands and
    results of the units stay in the device's memory until the call ends.
    """

    uri: str
    compute: Line
    """Line of the seconds of one launch over its units."""
    bring: Line = NO_TIME
    """Line of the seconds of one transfer from the host over its bytes."""
    fetch: Line = NO_TIME
    """Line of the seconds of one transfer to the host over its bytes."""
    fixed_nbytes: int = 0
    """Bytes of the operands that all shards read whole. They arrive before the first unit."""
    in_nbytes: float = 0.0
    """Bytes of operands per unit."""
    out_nbytes: float = 0.0
    """Bytes of results per unit."""
    memory_nbytes: int = 0
    """Bytes that buffers can take; 0 if no limit is known."""
    shares: tuple[str, ...] = ()
    """Resources that other devices use, too. Launches on devices that share one wait for one
    another."""
    ready_s: float = 0.0
    """Seconds until earlier work ends and the device can launch. Its links are free before that
    time."""
    weight: float = 1.0
    """Launches are planned as 1 / weight times as long, so that a slow device gets less."""

    @property
    def most(self) -> float:
        """Units that fit into the device's memory at once; inf if no limit is known."""
        if not self.memory_nbytes:
            return math.inf
        left, unit = self.memory_nbytes - self.fixed_nbytes, self.in_nbytes + self.out_nbytes
        if left < unit or left < 0:
            return 0
        return int(left / unit) if unit else math.inf


class Pace:
    """The numbers that planners compute with: seconds of each stage, fixed and per unit.

    A piece has three stages, one after another. They take `bring + brings * units` seconds, `launch
    + computes * units` and `fetch + fetches * units`. Different stages of different pieces overlap;
    equal stages do not.
    """

    __slots__ = (
        "bring", "brings", "computes", "each", "far", "fetch", "fetches", "fixed", "launch", "most",
        "ready", "sent", "sent_each", "site", "start", "taken_each", "unit",
    )  # fmt: skip

    def __init__(self, site: Site) -> None:
        self.site, self.most, self.ready = site, site.most, site.ready_s
        self.launch, self.computes = site.compute.a / site.weight, site.compute.b / site.weight
        away, back = site.bring != NO_TIME, site.fetch != NO_TIME
        self.sent = site.fixed_nbytes if away else 0
        self.sent_each = site.in_nbytes if away else 0.0
        self.taken_each = site.out_nbytes if back else 0.0
        self.start = site.bring.a + site.bring.b * self.sent if self.sent else 0.0
        self.bring = site.bring.a if self.sent_each else 0.0
        self.brings = site.bring.b * self.sent_each
        self.fetch = site.fetch.a if self.taken_each else 0.0
        self.fetches = site.fetch.b * self.taken_each
        self.fixed = self.bring + self.launch + self.fetch
        self.unit = self.brings + self.computes + self.fetches
        self.each = max(self.brings, self.computes, self.fetches)
        """Seconds of one more unit in a long row: those of the slowest stage."""
        self.far = bool(self.sent or self.sent_each or self.taken_each)

    def stages(self) -> tuple[tuple[float, float], ...]:
        """Returns (seconds per piece, seconds per unit) of each stage, in order."""
        return (self.bring, self.brings), (self.launch, self.computes), (self.fetch, self.fetches)

    def piece_s(self, units: int) -> float:
        """Returns the seconds of one piece alone, from the first byte copied in to the last byte
        copied out.
        """
        return self.fixed + self.unit * units

    def alone_s(self, units: int) -> float:
        """Returns the seconds of a piece while no other piece runs. The copy of the operands that
        all shards read whole is not counted.
        """
        ways_s = self.bring + self.fetch + (self.brings + self.fetches) * units
        return ways_s + self.launch + self.computes * units

    def end_s(self, pieces: Sequence[int]) -> float:
        """Returns the seconds until the last of these pieces is on the host, if the device
        waits for no other one.
        """
        if not self.far:
            return self.ready + self.launch * len(pieces) + self.computes * sum(pieces)
        brought, computed, fetched = self.start, self.ready, 0.0
        for units in pieces:
            brought += self.bring + self.brings * units
            computed = max(computed, brought) + self.launch + self.computes * units
            fetched = max(fetched, computed) + self.fetch + self.fetches * units
        return fetched
