"""Plays a plan of shares on devices whose rates may be others than planned. Knows no planner.

Whoever is free takes the next chunk of the tail. This shares nothing with the planner's own
prediction but the rule who takes a chunk, and the rates that the rule reads.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from sparkle_drv.mesh.links.network import Port
from sparkle_drv.sched.shard.shares import Shares
from sparkle_drv.sched.shard.site import NO_TIME, Pace, Site
from sparkle_drv.sched.shard.tail import takes


@dataclass
class _Step:
    """A transfer or a launch: seconds first, then bytes."""

    lane: str
    seconds: float
    nbytes: float = 0.0
    b: float = 0.0
    held: tuple[str, ...] = ()
    rate: float = 0.0


@dataclass
class _Device:
    """The steps of one device, by lane; a piece goes from one lane to the next."""

    site: Site
    waiting: dict[str, deque[int]] = field(
        default_factory=lambda: {"bring": deque(), "launch": deque(), "fetch": deque()}
    )
    running: dict[str, tuple[_Step, int]] = field(default_factory=dict)
    end_s: float = 0.0
    since_s: float = math.inf
    """It waits for a resource since then; the longest wait is the next to end."""
    units: int = 0
    launched: int = 0
    begun_s: float = 0.0
    given: int = 0

    def step(self, lane: str, units: int) -> _Step:
        """The step of a piece; -1 units stand for the fixed operand."""
        site = self.site
        if lane == "launch":
            line = site.compute
            seconds = (line.a + line.b * units) / site.weight
            return _Step(lane, seconds, held=site.shares)
        line = site.bring if lane == "bring" else site.fetch
        each = site.in_nbytes if lane == "bring" else site.out_nbytes
        nbytes = site.fixed_nbytes if units < 0 else each * units
        if line == NO_TIME or not nbytes:
            return _Step(lane, 0.0)
        return _Step(lane, line.a, nbytes, line.b)


def played_s(plan: Shares, planned: Sequence[Site], true: Sequence[Site], host: Port) -> float:
    """Seconds that the plan takes on the true devices."""
    return _Play(plan, planned, true, host).end_s()


class _Play:
    def __init__(
        self, plan: Shares, planned: Sequence[Site], true: Sequence[Site], host: Port
    ) -> None:
        self.plan, self.host, self.now = plan, host, 0.0
        self.tail = deque(piece.units for piece in plan.tail)
        self.paces = {site.uri: Pace(site, host) for site in planned if site.uri in plan.parts}
        self.devices = {site.uri: _Device(site) for site in true if site.uri in plan.parts}
        for uri, pieces in plan.parts.items():
            device = self.devices[uri]
            if device.site.fixed_nbytes and device.site.bring != NO_TIME:
                device.waiting["bring"].append(-1)
            for piece in pieces:
                self._give(device, piece.units)

    def _give(self, device: _Device, units: int) -> None:
        device.waiting["bring"].append(units)
        device.units += units
        device.given += 1

    def end_s(self) -> float:
        while True:
            self._begin()
            running = [step for d in self.devices.values() for step, _ in d.running.values()]
            if not running:
                assert not self.tail, "nobody took a chunk"
                return max(device.end_s for device in self.devices.values())
            _share([step for step in running if step.seconds <= 0 and step.nbytes], self.host)
            passed = min(
                step.seconds if step.seconds > 0 else step.nbytes / step.rate if step.nbytes else 0
                for step in running
            )
            passed = min([passed, *(d.site.ready_s - self.now for d in self.devices.values()
                                    if d.site.ready_s > self.now)])  # fmt: skip
            self.now += passed
            for step in running:
                if step.seconds > 0:
                    step.seconds = step.seconds - passed if step.seconds - passed > 1e-15 else 0.0
                elif step.nbytes:
                    left = step.nbytes - passed * step.rate
                    step.nbytes = left if left > 1e-6 else 0.0
            for device in self.devices.values():
                self._end(device)

    def _end(self, device: _Device) -> None:
        for lane, (step, units) in list(device.running.items()):
            if step.seconds > 0 or step.nbytes:
                continue
            del device.running[lane]
            device.end_s = self.now if units >= 0 else device.end_s
            if lane != "fetch" and units >= 0:
                device.waiting["launch" if lane == "bring" else "fetch"].append(units)

    def _begin(self) -> None:
        """All that may begin now; a chunk that somebody takes may let others begin."""
        before = -1
        while before != len(self.tail):
            before = len(self.tail)
            for uri, device in sorted(self.devices.items(), key=lambda its: its[1].since_s):
                for lane in device.waiting:
                    if lane not in device.running and device.waiting[lane]:
                        self._try(uri, device, lane)
            for uri, device in self.devices.items():
                if self.tail and self._free(device) and self._takes(uri, device):
                    self._give(device, self.tail.popleft())

    def _try(self, uri: str, device: _Device, lane: str) -> None:
        units = device.waiting[lane][0]
        if lane == "launch":
            held = [
                n for d in self.devices.values() if "launch" in d.running for n in d.site.shares
            ]
            if self.now < device.site.ready_s or set(held) & set(device.site.shares):
                device.since_s = min(device.since_s, self.now)
                return
            device.launched += 1
            device.begun_s = self.now
            device.since_s = math.inf
        if units < 0 and uri in self.plan.order:
            for early in self.plan.order[: self.plan.order.index(uri)]:
                other = self.devices[early]
                if -1 in other.waiting["bring"] or other.running.get("bring", (None, 0))[1] < 0:
                    return
        device.waiting[lane].popleft()
        device.running[lane] = device.step(lane, units), units

    def _free(self, device: _Device) -> bool:
        if device.launched < device.given:
            return False
        away = device.site.bring != NO_TIME and device.site.in_nbytes
        return bool(away) or "launch" not in device.running

    def _takes(self, uri: str, device: _Device) -> bool:
        if device.units + self.tail[0] > device.site.most:
            return False
        fastest = min(self.paces.values(), key=lambda pace: pace.each)
        rate = sum(1 / pace.each for pace in self.paces.values())
        pace = self.paces[uri]
        ahead = 0.0
        if "launch" in device.running:
            units = device.running["launch"][1]
            ahead = max(0.0, device.begun_s + pace.launch + pace.computes * units - self.now)
        return takes(ahead + pace.piece_s(self.tail[0]), sum(self.tail) / rate, pace is fastest)


def _share(flows: Sequence[_Step], host: Port) -> None:
    """Max-min fair rates: the tightest limit fixes its flows, then the next one."""
    left = {"bring": host.send, "fetch": host.receive, "both": host.both}
    slow = list(flows)
    while slow:
        limits = [(1 / step.b if step.b else 1e18, [step]) for step in slow]
        for lane, rate in left.items():
            its = [step for step in slow if lane in (step.lane, "both")]
            if its and rate < math.inf:
                limits.append((rate / len(its), its))
        level, its = min(limits, key=lambda limit: limit[0])
        for step in its:
            step.rate = level
            slow.remove(step)
            for lane in (step.lane, "both"):
                left[lane] -= level
