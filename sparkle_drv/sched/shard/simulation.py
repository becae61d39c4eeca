"""Predicts when each device ends if parts run together: an event simulation of their steps.

Each device first copies in the operands that all shards read whole. Then it copies its pieces in,
launches them in order, and copies each result out. One direction between host and device carries
one transfer at a time. Transfers share the host's port max-min fairly, as in
mesh/collective/fluid.py; a transfer in its latency uses nothing of the port.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import pairwise

from sparkle_drv.mesh.links.network import Port

from .site import Pace

SAME = 1e-9
"""Parts of a transfer below this count as rounding errors."""
BRING, COMPUTE, FETCH = range(3)


class _Flow:
    """The bytes of a transfer in progress."""

    __slots__ = ("at", "lane", "left", "nbytes", "own", "rate")

    def __init__(self, at: int, lane: int, nbytes: float, own: float) -> None:
        self.at, self.lane, self.left, self.nbytes, self.own = at, lane, nbytes, nbytes, own
        self.rate = 0.0


def contended(paces: Sequence[Pace], host: Port) -> bool:
    """Returns whether transfers or launches of these devices may wait for one another."""
    names = [name for pace in paces for name in pace.site.shares]
    if len(set(names)) < len(names):
        return True
    sends = sum(_own(pace, BRING) for pace in paces if pace.sent or pace.sent_each)
    takes = sum(_own(pace, FETCH) for pace in paces if pace.taken_each)
    return sends > host.send or takes > host.receive or sends + takes > host.both


def _own(pace: Pace, lane: int) -> float:
    b = (pace.site.bring if lane == BRING else pace.site.fetch).b
    return 1 / b if b > 0 else 1e18


def ends(
    paces: Sequence[Pace],
    parts: Sequence[Sequence[int]],
    host: Port,
    order: Sequence[int] = (),
    planned: Sequence[int] = (),
) -> list[float]:
    """Returns the seconds at which each device's last result is on the host; 0 for a device without
    a part.

    The devices in `order` take turns to receive the operands that every shard reads whole. Pieces
    after the first `planned` ones are chunks of the tail: a device takes one when it launches the
    one before.
    """
    busy = [pace for pace, part in zip(paces, parts, strict=True) if part]
    if not contended(busy, host):
        return [p.end_s(part) if part else 0.0 for p, part in zip(paces, parts, strict=True)]
    found, run = [0.0] * len(paces), [list[int]()] * len(paces)
    names = [name for pace in busy for name in pace.site.shares]
    for at, (pace, part) in enumerate(zip(paces, parts, strict=True)):
        if pace.far or any(names.count(name) > 1 for name in pace.site.shares):
            run[at] = part  # type: ignore[call-overload]
        elif part:  # a device that shares no resource, so it waits for no other device
            found[at] = pace.end_s(part)
    its = _Run(paces, run, host, order, planned).ends()
    return [end or other for end, other in zip(its, found, strict=True)]


class _Run:
    def __init__(
        self,
        paces: Sequence[Pace],
        parts: Sequence[Sequence[int]],
        host: Port,
        order: Sequence[int],
        planned: Sequence[int],
    ) -> None:
        self.paces, self.host, self.now = paces, host, 0.0
        self.planned = planned or [len(part) for part in parts]
        # parts[device][piece] is the size of a piece in units. Piece number -1, which `parts` does
        # not contain, is the copy of those operands that every shard reads whole.
        self.parts = parts
        self.behind = dict(pairwise(order))
        self.before = {late: early for early, late in self.behind.items()}
        self.next = [[-1 if pace.sent else 0, 0, 0] for pace in paces]
        self.done = [[-1 if pace.sent else 0, 0, 0] for pace in paces]
        self.busy = [[False, False, False] for _ in paces]
        self.limited = min(host.send, host.receive, host.both) < math.inf
        # The rates of the flows, by the set of flows in progress.
        self.rates: dict[tuple[int, ...], list[float]] = {}
        self.timed: list[tuple[float, int, int, bool]] = []
        self.flows: list[_Flow] = []
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
        while self.timed or self.flows:
            self._event()
        return self.end

    def _begin(self, at: int, lane: int) -> None:
        """Begins the next step of a lane, if it may begin."""
        number, pace, part = self.next[at][lane], self.paces[at], self.parts[at]
        if self.busy[at][lane] or number >= len(part):
            return
        if lane and self.done[at][lane - 1] <= number:
            return
        if number < 0 and at in self.before and self.done[self.before[at]][BRING] < 0:
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
            seconds, last = pace.launch + pace.computes * units, True
        else:
            each = pace.sent_each if lane == BRING else pace.taken_each
            nbytes = pace.sent if number < 0 else each * units
            line = pace.site.bring if lane == BRING else pace.site.fetch
            seconds, last = line.a if nbytes else 0.0, not nbytes
            if not self.limited:
                seconds, last = seconds + line.b * nbytes, True
        self.busy[at][lane] = True
        self.next[at][lane] += 1
        heappush(self.timed, (self.now + seconds, at, lane, last))
        if lane == COMPUTE:
            self._begin(at, BRING)

    def _event(self) -> None:
        """Advances to the time when the next step ends. Begins the steps that may begin then."""
        timed, now = self.timed, self.now
        until = timed[0][0] if timed else math.inf
        for flow in self.flows:
            end = now + flow.left / flow.rate
            if end < until:
                until = end
        passed, self.now, ended, changed = until - now, until, [], False
        for flow in self.flows:
            flow.left -= flow.rate * passed
            if flow.left <= SAME * flow.nbytes:
                ended.append(flow)
        for flow in ended:
            self.flows.remove(flow)
            changed = True
            self._ended(flow.at, flow.lane)
        while timed and timed[0][0] <= until:
            _, at, lane, last = heappop(timed)
            # no step is in progress here, so this event means that the device becomes ready
            if not self.busy[at][lane]:
                self._begin(at, COMPUTE)
            elif last:
                self._ended(at, lane)
            else:
                pace, number = self.paces[at], self.next[at][lane] - 1
                each = pace.sent_each if lane == BRING else pace.taken_each
                nbytes = pace.sent if number < 0 else each * self.parts[at][number]
                self.flows.append(_Flow(at, lane, nbytes, _own(pace, lane)))
                changed = True
        if changed and self.flows:
            key = tuple([3 * flow.at + flow.lane for flow in self.flows])
            if key not in self.rates:
                _fair(self.flows, self.host)
                self.rates[key] = [flow.rate for flow in self.flows]
            for flow, rate in zip(self.flows, self.rates[key], strict=True):
                flow.rate = rate

    def _ended(self, at: int, lane: int) -> None:
        self.busy[at][lane] = False
        self.done[at][lane] += 1
        if lane == BRING and not self.done[at][lane] and at in self.behind:
            self._begin(self.behind[at], BRING)
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


def _fair(flows: Sequence[_Flow], host: Port) -> None:
    """Sets the rate of each flow, max-min fairly."""
    left = {
        (BRING,): host.send, (FETCH,): host.receive, (BRING, FETCH): host.both
    }  # fmt: skip
    open_ = sorted(flows, key=lambda flow: flow.own)
    left = {lanes: rate for lanes, rate in left.items() if rate < math.inf}
    while open_:
        level, full = open_[0].own, None
        for lanes, rate in left.items():
            n = sum(flow.lane in lanes for flow in open_)
            if n and rate / n < level:
                level, full = rate / n, lanes
        fixed = [open_[0]] if full is None else [flow for flow in open_ if flow.lane in full]
        for flow in fixed:
            flow.rate = level
            for lanes in left:
                if flow.lane in lanes:
                    left[lanes] -= level
        open_ = [flow for flow in open_ if flow not in fixed]
