"""Predicts when each device ends if parts run together: an event simulation of their steps.

Each device first copies in the operands that all shards read whole. Then it copies its pieces in,
launches them in order, and copies each result out. One direction between host and device carries
one transfer at a time. Launches on devices that share a resource wait for one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from .site import Pace

BRING, COMPUTE, FETCH = range(3)


def contended(paces: Sequence[Pace]) -> bool:
    """Returns whether launches of these devices may wait for one another."""
    names = [name for pace in paces for name in pace.site.shares]
    return len(set(names)) < len(names)


def ends(
    paces: Sequence[Pace], parts: Sequence[Sequence[int]], planned: Sequence[int] = ()
) -> list[float]:
    """Returns the seconds at which each device's last result is on the host; 0 for a device without
    a part.

    Pieces after the first `planned` ones are chunks of the tail: a device takes one when it
    launches the one before.
    """
    busy = [pace for pace, part in zip(paces, parts, strict=True) if part]
    if not contended(busy):
        return [p.end_s(part) if part else 0.0 for p, part in zip(paces, parts, strict=True)]
    ended, run = [0.0] * len(paces), [list[int]()] * len(paces)
    names = [name for pace in busy for name in pace.site.shares]
    for at, (pace, part) in enumerate(zip(paces, parts, strict=True)):
        if pace.far or any(names.count(name) > 1 for name in pace.site.shares):
            run[at] = part  # type: ignore[call-overload]
        elif part:  # a device that shares no resource, so it waits for no other device
            ended[at] = pace.end_s(part)
    its = _Run(paces, run, planned).ends()
    return [end or other for end, other in zip(its, ended, strict=True)]


class _Run:
    def __init__(
        self, paces: Sequence[Pace], parts: Sequence[Sequence[int]], planned: Sequence[int]
    ) -> None:
        self.paces, self.now = paces, 0.0
        self.planned = planned or [len(part) for part in parts]
        # parts[device][piece] is the size of a piece in units. Piece number -1, which `parts` does
        # not contain, is the copy of those operands that every shard reads whole.
        self.parts = parts
        self.next = [[-1 if pace.sent else 0, 0, 0] for pace in paces]
        self.done = [[-1 if pace.sent else 0, 0, 0] for pace in paces]
        self.busy = [[False, False, False] for _ in paces]
        # (time, device, lane, ended): the end of a step, or the time when the device becomes ready.
        self.timed: list[tuple[float, int, int, bool]] = []
        self.held: set[str] = set()
        # When each device began to wait for a resource. The device that has waited longest goes
        # first.
        self.since: dict[int, float] = {}
        self.end = [0.0] * len(paces)

    def ends(self) -> list[float]:
        """Runs the simulation. Returns the seconds at which each device ends its part."""
        for at, part in enumerate(self.parts):
            if part:
                self._begin(at, BRING)
                if self.paces[at].ready > 0:
                    heappush(self.timed, (self.paces[at].ready, at, COMPUTE, False))
        while self.timed:
            self.now, at, lane, ended = heappop(self.timed)
            if ended:
                self._ended(at, lane)
            else:
                self._begin(at, lane)
        return self.end

    def _begin(self, at: int, lane: int) -> None:
        """Begins the next step of a lane, if it may begin."""
        number, pace, part = self.next[at][lane], self.paces[at], self.parts[at]
        if self.busy[at][lane] or number >= len(part):
            return
        if lane and self.done[at][lane - 1] <= number:
            return
        if not lane and self.planned[at] <= number and self.next[at][COMPUTE] < number:
            return
        units = part[number] if number >= 0 else 0
        if lane == COMPUTE:
            if self.now < pace.ready:
                return
            if not self.held.isdisjoint(pace.site.shares):
                self.since.setdefault(at, self.now)
                return
            self.since.pop(at, None)
            self.held.update(pace.site.shares)
            seconds = pace.launch + pace.computes * units
        else:
            each = pace.sent_each if lane == BRING else pace.taken_each
            nbytes = pace.sent if number < 0 else each * units
            line = pace.site.bring if lane == BRING else pace.site.fetch
            seconds = line.a + line.b * nbytes if nbytes else 0.0
        self.busy[at][lane] = True
        self.next[at][lane] += 1
        heappush(self.timed, (self.now + seconds, at, lane, True))
        if lane == COMPUTE:
            self._begin(at, BRING)

    def _ended(self, at: int, lane: int) -> None:
        self.busy[at][lane] = False
        self.done[at][lane] += 1
        if lane == COMPUTE:
            names = self.paces[at].site.shares
            self.held.difference_update(names)
            if names and self.since:
                for other in sorted(self.since, key=self.since.__getitem__):
                    self._begin(other, COMPUTE)
        if lane == FETCH:
            self.end[at] = self.now
        else:
            self._begin(at, lane + 1)
        self._begin(at, lane)
