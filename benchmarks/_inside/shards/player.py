"""The player: simulates a plan of shares on devices whose rates may differ from the plan's.

The player does not use the planner.

A free device takes the next chunk of the tail, the units that the plan gives to no device. A device
may stop during the run, and pieces may stall. Player and planner share three things: the rule for
taking chunks, the rule for repeating late pieces, and the rates that these rules read.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sparkle_drv.mesh.links.line import Line
from sparkle_drv.sched.shard.late_pieces import LATE, again
from sparkle_drv.sched.shard.pieces import largest
from sparkle_drv.sched.shard.shares import Shares
from sparkle_drv.sched.shard.site import NO_TIME, Pace, Site
from sparkle_drv.sched.shard.tail import takes


@dataclass(frozen=True)
class Stop:
    """A failure: from the time `at_s` on, a device takes `slower` times as long to compute. If
    `slower` is infinity, the device stops.
    """

    uri: str
    at_s: float
    slower: float = math.inf


@dataclass(frozen=True)
class Stalls:
    """The fraction `part` of all launches, drawn from the seed, takes `slower` times as long."""

    seed: int
    part: float = 0.01
    slower: float = 20.0


@dataclass
class _PlayedStep:
    """A launch or a transfer, which takes `seconds`."""

    seconds: float


@dataclass(eq=False)
class _PlayedPiece:
    """What one launch computes, or what one transfer moves: `units` of the call. -1 units stand for
    the operand that every launch needs as a whole.
    """

    units: int
    begun: dict[str, float] = field(default_factory=dict)
    """By device that launched it: when."""
    expected: dict[str, float] = field(default_factory=dict)
    """By device that does it and is not late: its predicted end."""
    done: bool = False


@dataclass
class _DeviceState:
    """The state of one device. A piece goes through three lanes: its operands are brought, it is
    launched, its results are fetched.
    """

    site: Site
    pace: Pace
    most: int
    stop: Stop | None
    waiting: dict[str, deque[_PlayedPiece]] = field(
        default_factory=lambda: {"bring": deque(), "launch": deque(), "fetch": deque()}
    )
    running: dict[str, tuple[_PlayedStep, _PlayedPiece]] = field(default_factory=dict)
    since_s: float = math.inf
    """Since when it waits for a resource; the longest wait ends first."""
    units: int = 0
    unbegun: list[_PlayedPiece] = field(default_factory=list)
    """Its pieces that are not launched."""
    launched: _PlayedPiece | None = None
    """The piece that it computes."""
    late: bool = False
    """Is that piece late? Transfers are not judged."""

    def step(self, lane: str, units: int) -> _PlayedStep:
        """Returns the launch or transfer (_PlayedStep) that a piece of `units` needs in a lane."""
        site = self.site
        if lane == "launch":
            line = site.compute
            return _PlayedStep((line.a + line.b * units) / site.weight)
        line = site.bring if lane == "bring" else site.fetch
        each = site.in_nbytes if lane == "bring" else site.out_nbytes
        nbytes = site.fixed_nbytes if units < 0 else each * units
        return _PlayedStep(line.a + line.b * nbytes if nbytes else 0.0)


def played_s(
    plan: Shares, planned: Sequence[Site], true: Sequence[Site],
    stop: Stop | None = None, stalls: Stalls | None = None,
) -> float:  # fmt: skip
    """Simulates the run of a plan on the devices `true`. Returns the seconds that the run takes.

    The plan was made for the devices `planned`, whose rates may differ. With `stop`, one device
    stops or slows down. With `stalls`, some launches take longer.
    """
    return _Play(plan, planned, true, stop, stalls).end_s()


class _Play:
    def __init__(
        self, plan: Shares, planned: Sequence[Site], true: Sequence[Site],
        stop: Stop | None, stalls: Stalls | None,
    ) -> None:  # fmt: skip
        self.plan, self.now = plan, 0.0
        self.tail = deque(_PlayedPiece(piece.units) for piece in plan.tail)
        paces = {site.uri: Pace(site) for site in planned}
        self.chance = random.Random(stalls.seed) if stalls else None
        self.stalls, self.left = stalls, plan.count
        self.late: list[_PlayedPiece] = []
        self.devices = {
            site.uri: _DeviceState(
                site, paces[site.uri], largest(paces[site.uri], plan.predicted_s),
                stop if stop and stop.uri == site.uri else None,
            )
            for site in true if site.uri in plan.parts
        }  # fmt: skip
        for uri, pieces in plan.parts.items():
            device = self.devices[uri]
            if device.site.fixed_nbytes and device.site.bring != NO_TIME:
                device.waiting["bring"].append(_PlayedPiece(-1))
            for piece in pieces:
                self._give(device, _PlayedPiece(piece.units))

    def _give(self, device: _DeviceState, piece: _PlayedPiece) -> None:
        device.waiting["bring"].append(piece)
        device.units += piece.units
        device.unbegun.append(piece)

    def end_s(self) -> float:
        while self.left:
            self._begin()
            running = [step for d in self.devices.values() for step, _ in d.running.values()]
            passed = min([
                *(step.seconds for step in running),
                *(t - self.now for t in self._times() if t > self.now), math.inf,
            ])  # fmt: skip
            assert passed < math.inf, "nobody goes on"
            self.now += passed
            for step in running:
                step.seconds = step.seconds - passed if step.seconds - passed > 1e-15 else 0.0
            for uri, device in self.devices.items():
                self._end(uri, device)
            for uri, device in self.devices.items():
                self._watch(uri, device)
        return self.now

    def _times(self) -> Iterator[float]:
        """Yields the times at which a device becomes ready, a device stops, or a launched piece
        becomes late. Ends of launches and transfers are left out.
        """
        for uri, device in self.devices.items():
            yield device.site.ready_s
            if device.stop:
                yield device.stop.at_s
            if device.launched and not device.late:
                yield self._late_at_s(uri, device)

    def _late_at_s(self, uri: str, device: _DeviceState) -> float:
        piece = device.launched
        return piece.begun[uri] + LATE * device.pace.piece_s(piece.units) if piece else math.inf

    def _end(self, uri: str, device: _DeviceState) -> None:
        """Moves each piece whose launch or transfer has ended to the next lane, or marks the piece
        as done.
        """
        for lane, (step, piece) in list(device.running.items()):
            if step.seconds > 0:
                continue
            del device.running[lane]
            if lane == "bring" and piece in device.unbegun:
                device.waiting["launch"].append(piece)
            elif lane == "launch":
                device.waiting["fetch"].append(piece)
                device.launched = None
                device.late = False
            elif lane == "fetch":
                self.left -= 0 if piece.done else piece.units
                piece.done = True

    def _watch(self, uri: str, device: _DeviceState) -> None:
        """Applies what happens to the device now: its Stop begins, or its launched piece is late.

        A Stop slows the device down. A device whose piece is late loses its pieces that are not
        launched.
        """
        stop = device.stop
        if stop and stop.at_s <= self.now:
            device.stop, slower = None, device.site.compute
            line = Line(slower.a * stop.slower, slower.b * stop.slower)
            device.site = replace(device.site, compute=line)
            if "launch" in device.running:
                device.running["launch"][0].seconds *= stop.slower
        piece = device.launched
        if not piece or device.late or self.now < self._late_at_s(uri, device):
            return
        device.late = True
        piece.expected.pop(uri, None)
        if piece not in self.late:
            self.late.append(piece)
        self.tail.extendleft(reversed([p for p in device.unbegun if p not in self.late]))
        device.units -= sum(p.units for p in device.unbegun)
        for unbegun in device.unbegun:
            unbegun.expected.pop(uri, None)
        device.unbegun.clear()
        device.waiting["launch"].clear()
        device.waiting["bring"] = deque(p for p in device.waiting["bring"] if p.units < 0)

    def _begin(self) -> None:
        """Begins all launches and transfers that may begin now. Then free devices take chunks of
        the tail, or late pieces. All this repeats until no device takes anything, since the first
        transfer or launch of new work may begin at once.
        """
        progress = True
        while progress:
            progress = False
            for uri, device in sorted(self.devices.items(), key=lambda its: its[1].since_s):
                for lane in device.waiting:
                    if lane not in device.running and device.waiting[lane]:
                        self._try(uri, device, lane)
            for uri, device in self.devices.items():
                piece = self._next(uri, device) if self._free(device) else None
                if piece:
                    progress = True
                    self._give(device, piece)

    def _try(self, uri: str, device: _DeviceState, lane: str) -> None:
        piece = device.waiting[lane][0]
        if lane == "launch":
            held = [
                n for d in self.devices.values() if "launch" in d.running for n in d.site.shares
            ]
            if self.now < device.site.ready_s or set(held) & set(device.site.shares):
                device.since_s = min(device.since_s, self.now)
                return
            piece.begun[uri] = self.now
            device.unbegun.remove(piece)
            device.launched = piece
            device.since_s = math.inf
        device.waiting[lane].popleft()
        step = device.step(lane, piece.units)
        if lane == "launch" and self.stalls and self.chance:
            step.seconds *= self.stalls.slower if self.chance.random() < self.stalls.part else 1.0
        device.running[lane] = step, piece

    def _free(self, device: _DeviceState) -> bool:
        if device.unbegun or device.late:
            return False
        away = device.site.bring != NO_TIME and device.site.in_nbytes
        return bool(away) or "launch" not in device.running

    def _next(self, uri: str, device: _DeviceState) -> _PlayedPiece | None:
        """Returns the next work of a free device: units of the tail, or, if the tail is empty, a
        late piece of another device, to compute it again. Returns None if there is neither, or if
        the device would not help or has no room.
        """
        pace = device.pace
        ahead = max([
            0.0, *(piece.begun[uri] + pace.launch + pace.computes * piece.units - self.now
                   for _, piece in [device.running.get("launch", (None, None))] if piece),
        ])  # fmt: skip
        room = device.site.most - device.units
        if self.tail:
            units = min(self.tail[0].units, device.most)
            paces = [d.pace for d in self.devices.values() if not d.late]
            left_s = sum(piece.units for piece in self.tail) / sum(1 / p.each for p in paces)
            fastest = pace is min(paces, key=lambda p: p.each)
            if units <= room and takes(ahead + pace.piece_s(units), left_s, fastest):
                self.tail[0].units -= units
                if not self.tail[0].units:
                    self.tail.popleft()
                return _PlayedPiece(units)
            return None
        if device.launched:
            return None
        self.late = [piece for piece in self.late if not piece.done]
        for piece in sorted(self.late, key=lambda late: min(late.begun.values())):
            ready = self.now >= device.site.ready_s
            others = piece.expected.values()
            if uri not in piece.begun and ready and piece.units <= room and again(
                self.now, pace, piece.units, others
            ):  # fmt: skip
                piece.expected[uri] = self.now + pace.piece_s(piece.units)
                return piece
        return None
