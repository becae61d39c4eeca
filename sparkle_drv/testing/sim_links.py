"""Links between simulated devices: links of pairs, ports that transfers share, and faults.

A transfer takes the latency of its link, then its bytes flow. Simultaneous flows get max-min fair
shares of the ports at their ends (mesh/links/network.py defines these). The shares come from
progressive filling: all rates rise together until a port is full or a link is at its rate. This
module is independent of the planner's predictor, which it judges.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sparkle_drv.mesh.links.network import Network, Port

from .sim_clock import Clock, SimEvent
from .simulated import Rate, SimDevice, SimMachine

Pair = tuple[str, str]
"""(from, to), URIs."""
FAULTS = ("cut", "slow", "corrupt")
SAME = 1e-12
"""Relative difference below which rates count as equal, and seconds below which ends do."""


@dataclass(frozen=True)
class LinkFault:
    """A fault at the `at`-th transfer over a link, counted from 1.

    cut      that transfer and all later ones fail: in mid-transfer with `within`, else at once
    slow     that transfer and the next `count` - 1 take `factor` times as long
    corrupt  one dword of the transfer's bytes is xored
    """

    what: str
    at: int = 1
    factor: float = 10.0
    count: int = 1
    within: bool = False

    def __post_init__(self) -> None:
        if self.what not in FAULTS:
            raise ValueError(f"what: expected one of {', '.join(FAULTS)}, got {self.what!r}")
        if self.at < 1 or self.count < 1 or not self.factor > 0:
            raise ValueError(
                f"expected `at` and `count` of at least 1, and `factor` above 0, got {self}"
            )


@dataclass
class SimLink:
    """A link in one direction between two devices."""

    latency_s: float
    per_s: float
    """Bytes per second of a transfer alone. A change applies when flows next share."""
    faults: tuple[LinkFault, ...] = ()
    transfers: int = 0
    """Number so far."""
    happened: Counter[str] = field(default_factory=Counter)
    """Counts by word of FAULTS."""

    def comes(self) -> dict[str, LinkFault]:
        """Counts one more transfer. Returns the faults that hit this transfer, by kind (a word of
        FAULTS).
        """
        self.transfers += 1
        due = {}
        for fault in self.faults:
            more = math.inf if fault.what == "cut" else fault.count
            if fault.at <= self.transfers < fault.at + more:
                due[fault.what] = fault
                self.happened[fault.what] += 1
        return due


@dataclass(eq=False)
class _SimTransfer:
    key: tuple[str, str, int]
    left: float
    link: SimLink
    ports: tuple[tuple[str, str], ...]
    ended: SimEvent
    rate: float = 0.0


class Fabric:
    """All links and ports of one machine, and the transfers in progress."""

    def __init__(
        self, clock: Clock, links: Mapping[Pair, SimLink], ports: Mapping[str, Port]
    ) -> None:
        self.clock, self.links = clock, links
        self.rates = {
            (uri, kind): float(getattr(port, kind))
            for uri, port in ports.items()
            for kind in ("send", "receive", "both")
            if math.isfinite(getattr(port, kind))
        }
        self._flows: list[_SimTransfer] = []
        # the time at which each flow's `left`, the bytes still to move, was last computed
        self._since_s = 0.0
        self._turn = 0  # how often the rates have changed

    def carry(self, pair: Pair, nbytes: int, begin_s: float, factor: float = 1.0) -> SimEvent:
        """Starts a transfer at `begin_s` that takes `factor` times as long as usual. Returns the
        event of its end. The caller holds the clock's lock.
        """
        link, (source, to) = self.links[pair], pair
        ends = ((source, "send"), (source, "both"), (to, "receive"), (to, "both"))
        ports = tuple(end for end in ends if end in self.rates)
        key = source, to, link.transfers
        flow = _SimTransfer(key, nbytes * factor, link, ports, SimEvent())
        self.clock.at(begin_s + link.latency_s * factor, lambda: self._joins(flow))
        return flow.ended

    def _joins(self, flow: _SimTransfer) -> None:
        self._settle()
        self._flows.append(flow)
        self._share()

    def _settle(self) -> None:
        seconds = self.clock.now_s - self._since_s
        self._since_s = self.clock.now_s
        for flow in self._flows:
            if math.isfinite(flow.rate):
                flow.left = max(0.0, flow.left - flow.rate * seconds)
            else:
                flow.left = 0.0

    def _share(self) -> None:
        self._flows.sort(key=lambda flow: flow.key)
        fair(self._flows, self.rates)
        self._turn += 1
        turn = self._turn
        if self._flows:
            ends = [_lasts(flow) for flow in self._flows]
            if min(ends) < math.inf:
                self.clock.at(self.clock.now_s + min(ends), lambda: self._ends(turn))

    def _ends(self, turn: int) -> None:
        # the rates have changed since this call was scheduled: a later call ends the transfer
        if turn != self._turn:
            return
        first = min(_lasts(flow) for flow in self._flows)
        done = [flow for flow in self._flows if _lasts(flow) <= first + SAME]
        self._settle()
        self._flows = [flow for flow in self._flows if flow not in done]
        self._share()
        for flow in done:
            flow.ended.known(self.clock.now_s)


def _lasts(flow: _SimTransfer) -> float:
    if not flow.left:
        return 0.0
    return flow.left / flow.rate if flow.rate else math.inf


def fair(flows: Sequence[_SimTransfer], rates: Mapping[tuple[str, str], float]) -> None:
    """Sets the max-min fair rate of each flow."""
    free, rising = dict(rates), list(flows)
    while rising:
        users = Counter(port for flow in rising for port in flow.ports)
        level = min([free[p] / n for p, n in users.items()] + [flow.link.per_s for flow in rising])
        full = {p for p, n in users.items() if free[p] / n <= level * (1 + SAME)}
        fixed = [
            f for f in rising if f.link.per_s <= level * (1 + SAME) or full.intersection(f.ports)
        ]
        for flow in fixed:
            flow.rate = level
            for port in flow.ports:
                free[port] = max(0.0, free[port] - level)
        rising = [flow for flow in rising if flow not in fixed]


def simulated(network: Network, seed: int = 0, noise: float = 0.0) -> tuple[SimMachine, Network]:
    """Returns a machine with devices `sim:PLACE` and the network's links and ports, and the network
    with its places renamed to these devices.
    """
    names = {place: f"sim:{place}" for place in network.places}
    named = Network(
        tuple(names.values()),
        {(names[a], names[b]): line for (a, b), line in network.links.items()},
        {names[place]: port for place, port in network.ports.items()},
        {names[place]: line for place, line in network.adds.items()},
        frozenset((names[a], names[b]) for a, b in network.direct),
    )
    devices = {}
    for uri in named.places:
        add = named.adds.get(uri)
        # An addition reads two arrays and writes a third. So its rate counts three arrays' bytes.
        other = (
            Rate(1e-9, math.inf) if add is None else Rate(add.a, 3 / add.b if add.b else math.inf)
        )
        # All operands are on the simulated devices, none on the host. So copies to and from the
        # host get almost no cost.
        devices[uri] = SimDevice(uri, {}, (1e-9, 1e12), noise=noise, other=other)
    links = {
        pair: SimLink(line.a, 1 / line.b if line.b > 0 else math.inf)
        for pair, line in named.links.items()
    }
    made = SimMachine(devices, random.Random(seed), links=links, ports=dict(named.ports), seed=seed)
    return made, named
