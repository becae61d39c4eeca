"""One device that may take a part of a call, as numbers. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sparkle_drv.mesh.links.line import Line
from sparkle_drv.mesh.links.network import Port

FREE = Port()
"""Of a host whose memory limits no transfer."""
NO_TIME = Line(0.0, 0.0)
"""The way between the host and a device that shares its memory."""


@dataclass(frozen=True)
class Site:
    """A device and what one cut of one call costs there.

    A unit is a granule of the axis that is cut, 16 rows for example. Operands, units and results
    stay in the device's memory until the call ends.
    """

    uri: str
    compute: Line
    """Seconds of one launch by units."""
    bring: Line = NO_TIME
    """Seconds of one transfer from the host by bytes."""
    fetch: Line = NO_TIME
    """Seconds of one transfer to the host by bytes."""
    fixed_nbytes: int = 0
    """Bytes of the operand that all shards read whole: the device gets it before its first unit."""
    in_nbytes: float = 0.0
    """Bytes of operands for one unit."""
    out_nbytes: float = 0.0
    """Bytes of results of one unit."""
    memory_nbytes: int = 0
    """Bytes that buffers can take; 0: no limit is known."""
    shares: tuple[str, ...] = ()
    """Resources that other devices use too: launches on them wait for one another."""
    ready_s: float = 0.0
    """Earlier work keeps the device from launching until then; its ways are free."""
    weight: float = 1.0
    """Launches are planned as if they took 1 / weight times as long: a slow device gets less."""

    @property
    def most(self) -> float:
        """Units that fit into its memory at once; infinite where no limit is known."""
        if not self.memory_nbytes:
            return math.inf
        left, unit = self.memory_nbytes - self.fixed_nbytes, self.in_nbytes + self.out_nbytes
        if left < unit or left < 0:
            return 0
        return int(left / unit) if unit else math.inf


class Pace:
    """What planners compute with: seconds of each stage, fixed and per unit.

    A piece takes `bring + brings * units` seconds, then `launch + computes * units`, then
    `fetch + fetches * units`. Stages of different pieces overlap, those of one kind do not.
    """

    __slots__ = (
        "bring", "brings", "computes", "each", "far", "fetch", "fetches", "fixed", "launch", "most",
        "ready", "sent", "sent_each", "site", "start", "taken_each", "unit",
    )  # fmt: skip

    def __init__(self, site: Site, host: Port = FREE) -> None:
        self.site, self.most, self.ready = site, site.most, site.ready_s
        self.launch, self.computes = site.compute.a / site.weight, site.compute.b / site.weight
        away, back = site.bring != NO_TIME, site.fetch != NO_TIME
        self.sent = site.fixed_nbytes if away else 0
        self.sent_each = site.in_nbytes if away else 0.0
        self.taken_each = site.out_nbytes if back else 0.0
        bring = max(site.bring.b, 1 / host.send, 1 / host.both)
        fetch = max(site.fetch.b, 1 / host.receive, 1 / host.both)
        self.start = site.bring.a + bring * self.sent if self.sent else 0.0
        self.bring = site.bring.a if self.sent_each else 0.0
        self.brings = bring * self.sent_each
        self.fetch = site.fetch.a if self.taken_each else 0.0
        self.fetches = fetch * self.taken_each
        self.fixed = self.bring + self.launch + self.fetch
        self.unit = self.brings + self.computes + self.fetches
        self.each = max(self.brings, self.computes, self.fetches)
        """Seconds that one more unit takes in a long row of them: those of the slowest stage."""
        self.far = bool(self.sent or self.sent_each or self.taken_each)

    def stages(self) -> tuple[tuple[float, float], ...]:
        """(seconds of each piece, seconds of each unit) of the stages, in order."""
        return (self.bring, self.brings), (self.launch, self.computes), (self.fetch, self.fetches)

    def piece_s(self, units: int) -> float:
        """Seconds of a piece by itself, from its first byte that is brought to the last fetched."""
        return self.fixed + self.unit * units

    def alone_s(self, units: int) -> float:
        """Seconds of a piece with no other one beside it, its first operands apart."""
        ways_s = self.bring + self.fetch + (self.brings + self.fetches) * units
        return ways_s + self.launch + self.computes * units

    def end_s(self, pieces: Sequence[int]) -> float:
        """When the last of these pieces is at the host, where nothing else uses its port."""
        if not self.far:
            return self.ready + self.launch * len(pieces) + self.computes * sum(pieces)
        brought, computed, fetched = self.start, self.ready, 0.0
        for units in pieces:
            brought += self.bring + self.brings * units
            computed = max(computed, brought) + self.launch + self.computes * units
            fetched = max(fetched, computed) + self.fetch + self.fetches * units
        return fetched
