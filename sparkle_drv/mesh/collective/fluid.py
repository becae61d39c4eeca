"""Predicts the time of a program on a network by discrete-event simulation: simultaneous transfers
share ports max-min fairly. Pure functions.

Between two events all rates are constant. To set them, the rates of all transfers rise together
until a port is full or a link is at its own rate. The rates of the transfers on that port or link
are then fixed, and all other rates rise on. links/network.py names the source of this model.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace

from sparkle_drv.mesh.lanes.program import Lane, Program, RegionCopy, Step
from sparkle_drv.mesh.links.line import Line
from sparkle_drv.mesh.links.network import Network, Port

FREE = Line(0.0, 0.0)
LEAST_DEADLINE_S, LATE = 30.0, 10.0
"""A step has failed after LATE times its predicted seconds plus LEAST_DEADLINE_S."""
SAME_S, SAME = 1e-12, 1e-14
"""Ends closer than SAME_S seconds, or SAME times the current time, are one event. Rounding errors
are smaller."""
MOST_RATE = 1e18
"""Bytes per second of a transfer that nothing limits."""

Spans = Sequence[tuple[float, float]]
"""The (begin, end) of each step, in seconds."""


def spans(program: Program, network: Network, within_s: float = math.inf) -> Spans | None:
    """Returns when each step begins and ends; None if the last step ends later than `within_s`.

    Raises KeyError if a copy has no link.
    """
    run = _FluidRun(program, network)
    return run.spans if run.ends(within_s) else None


def predicted_s(program: Program, network: Network) -> float:
    """Returns the seconds from the beginning of the first step to the end of the last one.

    Raises KeyError if a copy has no link.
    """
    run = _FluidRun(program, network)
    run.ends(math.inf)
    return run.now


def timed(program: Program, network: Network, predicted: Spans | None = None) -> Program:
    """Returns the same program with two numbers for each step: its predicted seconds, while the
    other steps run beside it, and its deadline.

    `predicted` are the spans of the program, if they are known. Raises KeyError if a copy has no
    link.
    """
    known = predicted or spans(program, network) or ()
    steps = []
    for step, (begin, end) in zip(program.steps, known, strict=True):
        took_s, late_s = end - begin, LEAST_DEADLINE_S + LATE * (end - begin)
        steps.append(Step(step.number, step.lane, step.what, step.after, took_s, late_s))
    return Program(tuple(steps))


class _FluidFlow:
    """A copy in progress: its step, the bytes that are left, and its rate."""

    __slots__ = ("left", "limits", "rate", "step", "turn")

    def __init__(self, step: Step, limits: tuple[int, ...]) -> None:
        self.step, self.left, self.limits = step, float(step.what.src.nbytes), limits
        self.rate = 0.0
        self.turn = 0


class _Ports:
    """The capacities of all ports, in bytes per second, and the flows that share each port.

    A link that is slower than the ports at its ends counts as one more port.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self.rates: list[float] = []
        self.flows: list[dict[_FluidFlow, None]] = []
        self._at: dict[tuple[str, str], int] = {}
        self._limits: dict[tuple[str, str], tuple[int, ...]] = {}
        self._turn = 0
        for place in network.places:
            port = network.ports.get(place, Port())
            for name in ("send", "receive", "both"):
                self._add((place, name), float(getattr(port, name)))

    def _add(self, key: tuple[str, str], rate: float) -> None:
        if rate < math.inf:
            self._at[key] = len(self.rates)
            self.rates.append(rate)
            self.flows.append({})

    def limits(self, source: str, to: str) -> tuple[int, ...]:
        """Returns the indices (in `rates`) of the ports that limit the transfers from `source` to
        `to`.
        """
        indices = self._limits.get((source, to))
        if indices is None:
            keys = [(source, "send"), (source, "both"), (to, "receive"), (to, "both")]
            ports = [self._at[key] for key in keys if key in self._at]
            b = self.network.links[source, to].b
            own = 1 / b if b > 0 else MOST_RATE
            if own < min((self.rates[port] for port in ports), default=math.inf):
                ports.append(len(self.rates))
                self.rates.append(own)
                self.flows.append({})
            indices = self._limits[source, to] = tuple(ports)
        return indices

    def join(self, flow: _FluidFlow) -> None:
        for port in flow.limits:
            self.flows[port][flow] = None

    def leave(self, flow: _FluidFlow) -> None:
        for port in flow.limits:
            del self.flows[port][flow]

    def share(self) -> None:
        """Sets the rate of each flow.

        A flow is a copy in progress. The share of a port is its remaining rate, divided by the
        number of its flows that have no rate yet. The flows of the port with the smallest share get
        that share. This can only raise the shares of other ports. So a share in the heap may be too
        small, never too large. It is corrected when it comes to the top.
        """
        left, users = self.rates[:], [len(flows) for flows in self.flows]
        heap = [(left[at] / n, at) for at, n in enumerate(users) if n]
        heapify(heap)
        self._turn = turn = self._turn + 1
        while heap:
            level, at = heap[0]
            if not users[at]:
                heappop(heap)
                continue
            now = left[at] / users[at]
            if now > level:
                heapreplace(heap, (now, at))
                continue
            heappop(heap)
            for flow in self.flows[at]:
                if flow.turn != turn:
                    flow.turn, flow.rate = turn, level
                    for port in flow.limits:
                        left[port] -= level
                        users[port] -= 1


class _FluidRun:
    def __init__(self, program: Program, network: Network) -> None:
        self.network, self.ports = network, _Ports(network)
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
        self.now = 0.0
        self.spans = [(0.0, 0.0)] * len(program.steps)
        # Heap of (end in seconds, number of the step), an entry for each running latency or
        # reduction.
        self.timed: list[tuple[float, int]] = []
        self.latent: set[int] = set()
        self.flows: list[_FluidFlow] = []
        for lane in list(self.queues):
            self._begin(lane)

    def ends(self, within_s: float) -> bool:
        """Runs the simulation. Returns False, without running to the end, if the end is later than
        `within_s`.
        """
        while (self.timed or self.flows) and self.now <= within_s:
            self._event()
        return self.now <= within_s

    def _begin(self, lane: Lane) -> None:
        """Begins the next step of a lane, if all steps that this step waits for have ended."""
        queue = self.queues[lane]
        if lane in self.busy or not queue or self.missing[queue[0].number]:
            return
        step = queue.popleft()
        self.busy.add(lane)
        self.spans[step.number] = self.now, self.now
        if isinstance(step.what, RegionCopy) and step.what.src.place != step.what.dst.place:
            self.latent.add(step.number)
            seconds = self.network.links[step.what.src.place, step.what.dst.place].a
        else:
            line = self.network.adds.get(lane.source, FREE)
            seconds = line.a + line.b * step.what.dst.nbytes
        heappush(self.timed, (self.now + seconds, step.number))

    def _event(self) -> None:
        """Advances the simulated time to the next end of a copy, a reduction or a latency. Then
        begins the steps that may begin at that time.
        """
        lasts = min([flow.left / flow.rate for flow in self.flows], default=math.inf)
        at = min(self.now + lasts, self.timed[0][0] if self.timed else math.inf)
        passed, self.now = at - self.now, at
        same, done = max(SAME_S, SAME * at), []
        for flow in self.flows:
            flow.left -= flow.rate * passed
            if flow.left <= flow.rate * same:
                done.append(flow)
        changed = bool(done)
        for flow in done:
            self.flows.remove(flow)
            self.ports.leave(flow)
        for flow in done:
            self._ended(flow.step)
        while self.timed and self.timed[0][0] <= at + same:
            step = self.steps[heappop(self.timed)[1]]
            if step.number not in self.latent:
                self._ended(step)
                continue
            self.latent.discard(step.number)
            limits = self.ports.limits(step.what.src.place, step.what.dst.place)
            flow = _FluidFlow(step, limits)
            self.flows.append(flow)
            self.ports.join(flow)
            changed = True
        if changed:
            self.ports.share()

    def _ended(self, step: Step) -> None:
        self.spans[step.number] = self.spans[step.number][0], self.now
        self.busy.discard(step.lane)
        for reader in self.readers[step.number]:
            self.missing[reader] -= 1
            if not self.missing[reader]:
                self._begin(self.steps[reader].lane)
        self._begin(step.lane)
