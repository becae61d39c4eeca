"""What a program takes on a network: transfers that happen at once share ports, max-min fairly.

Pure: a discrete-event simulation. Between two events all rates are constant: the rates of all
transfers are raised together until a port is full or a link is at its own rate, which fixes those
it limits, and so on (the reference is in links/network.py).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sparkle_drv.mesh.lanes.program import Copy, Lane, Program, Step
from sparkle_drv.mesh.links.line import Line
from sparkle_drv.mesh.links.network import Network, Port

FREE = Line(0.0, 0.0)
LEAST_DEADLINE_S, LATE = 30.0, 10.0
"""A step that takes so many times what was predicted, and so many seconds more, has failed."""
SAME_S = 1e-12
"""Ends that are nearer to one another are one event."""


@dataclass(eq=False)
class _Flow:
    """The bytes of a copy that are on their way."""

    step: Step
    left: float
    most: float
    """Bytes a second that the link has."""
    limits: tuple[int, ...]
    """Indices of the ports that it shares."""
    rate: float = 0.0


@dataclass
class _Ports:
    """The capacities of all ports, in bytes a second."""

    rates: list[float] = field(default_factory=list)
    at: dict[tuple[str, str], int] = field(default_factory=dict)

    @classmethod
    def of(cls, network: Network) -> _Ports:
        made = cls()
        for place in network.places:
            port = network.ports.get(place, Port())
            for name in ("send", "receive", "both"):
                rate = float(getattr(port, name))
                if rate < float("inf"):
                    made.at[place, name] = len(made.rates)
                    made.rates.append(rate)
        return made

    def limits(self, source: str, to: str) -> tuple[int, ...]:
        keys = [(source, "send"), (source, "both"), (to, "receive"), (to, "both")]
        return tuple(self.at[key] for key in keys if key in self.at)


def predicted_s(program: Program, network: Network) -> float:
    """Seconds from the first beginning to the last end. KeyError: a copy has no link."""
    return _Run(program, network).end_s


def timed(program: Program, network: Network) -> Program:
    """The same program: each step says how long it is predicted to take, beside all others, and has
    a deadline. KeyError: a copy has no link.
    """
    spans = _Run(program, network).spans
    steps = (
        replace(step, predicted_s=end - begin, deadline_s=LEAST_DEADLINE_S + LATE * (end - begin))
        for step, (begin, end) in zip(program.steps, spans, strict=True)
    )
    return Program(tuple(steps))


class _Run:
    def __init__(self, program: Program, network: Network) -> None:
        self.network, self.ports = network, _Ports.of(network)
        self.missing = [len(step.after) for step in program.steps]
        self.readers: list[list[int]] = [[] for _ in program.steps]
        for step in program.steps:
            for before in step.after:
                self.readers[before].append(step.number)
        self.steps = program.steps
        self.queues: dict[Lane, deque[Step]] = {}
        for step in program.steps:
            self.queues.setdefault(step.lane, deque()).append(step)
        self.busy: set[Lane] = set()
        self.now = self.end_s = 0.0
        self.spans = [(0.0, 0.0)] * len(program.steps)
        """By step: when it begins and ends."""
        self.timed: list[tuple[float, int]] = []  # ends of latencies and of reductions
        self.latent: set[int] = set()
        self.flows: list[_Flow] = []
        for lane in list(self.queues):
            self._begin(lane)
        while self.timed or self.flows:
            self._event()

    def _begin(self, lane: Lane) -> None:
        """The next step of a lane, if it may begin."""
        queue = self.queues[lane]
        if lane in self.busy or not queue or self.missing[queue[0].number]:
            return
        step = queue.popleft()
        self.busy.add(lane)
        self.spans[step.number] = self.now, self.now
        if isinstance(step.what, Copy) and step.what.src.place != step.what.dst.place:
            self.latent.add(step.number)
            seconds = self.network.links[step.what.src.place, step.what.dst.place].a
        else:
            line = self.network.adds.get(lane.source, FREE)
            seconds = line.a + line.b * step.what.dst.nbytes
        heapq.heappush(self.timed, (self.now + seconds, step.number))

    def _event(self) -> None:
        """Go on to the next end, or ends, and begin what may begin then."""
        ends = self.now + min((f.left / f.rate for f in self.flows), default=float("inf"))
        at = min(ends, self.timed[0][0] if self.timed else float("inf"))
        for flow in self.flows:
            flow.left -= flow.rate * (at - self.now)
        self.now = self.end_s = at
        changed = False
        done = [f for f in self.flows if f.left <= f.rate * SAME_S]
        if done:
            changed = True
            self.flows = [f for f in self.flows if f.left > f.rate * SAME_S]
            for flow in done:
                self._ended(flow.step)
        while self.timed and self.timed[0][0] <= at + SAME_S:
            step = self.steps[heapq.heappop(self.timed)[1]]
            if step.number not in self.latent:
                self._ended(step)
                continue
            self.latent.discard(step.number)
            way = step.what.src.place, step.what.dst.place
            b = self.network.links[way].b
            most = 1 / b if b > 0 else float("inf")
            limits = self.ports.limits(*way)
            self.flows.append(_Flow(step, float(step.what.src.nbytes), most, limits))
            changed = True
        if changed:
            share(self.flows, self.ports.rates)

    def _ended(self, step: Step) -> None:
        self.spans[step.number] = self.spans[step.number][0], self.now
        self.busy.discard(step.lane)
        for reader in self.readers[step.number]:
            self.missing[reader] -= 1
            if not self.missing[reader]:
                self._begin(self.steps[reader].lane)
        self._begin(step.lane)


def share(flows: Sequence[_Flow], rates: Sequence[float]) -> None:
    """Sets the rate of each flow."""
    left, users = list(rates), [0] * len(rates)
    for flow in flows:
        flow.rate = -1.0
        for port in flow.limits:
            users[port] += 1
    open_ones = sorted(flows, key=lambda flow: flow.most)
    while open_ones:
        port = min((p for p in range(len(left)) if users[p]), key=lambda p: left[p] / users[p],
                   default=-1)  # fmt: skip
        fair = left[port] / users[port] if port >= 0 else float("inf")
        if open_ones[0].most <= fair:
            fixed = [open_ones[0]]
            fair = min(fixed[0].most, 1e18)
        else:
            fixed = [flow for flow in open_ones if port in flow.limits]
        for flow in fixed:
            flow.rate = fair
            for at in flow.limits:
                left[at] -= fair
                users[at] -= 1
        open_ones = [flow for flow in open_ones if flow.rate < 0]
