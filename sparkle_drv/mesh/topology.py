"""Topology: the measured links of some devices, corrected by their transfers. Plain data.

Each direction of a link has the cost line that fits its points (links/line.py), and two averages
over its transfers:

* `pace`: seconds taken over seconds expected. There is one such average for the latency and one for
the bytes. If most of a transfer's expected time is latency, it changes the average for the bytes
little, and the other way round. The averages are of logarithms. One transfer counts as at most
`FAR` times too fast or too slow, so that a disturbed transfer changes little.
* `reliability`: the share of transfers that succeeded.

All are exponential averages of weight `WEIGHT`. Planners read `network`, where seconds are
multiplied by the pace and divided by the reliability.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .links.line import Line, Point, fit
from .links.network import Network, Port
from .survey_result import SurveyResult, Way

WEIGHT = 0.1
"""Weight of the newest transfer in an average."""
FAR = 2.0
DRIFT = 1.25
"""Plans are made again once a link is this many times slower or faster than the plans assumed."""
LEAST_RELIABILITY = 0.01


@dataclass(frozen=True)
class Link:
    """One direction of a link between two devices, for people to read."""

    source: str
    to: str
    kind: str
    """The transport that carries the bytes (lanes/transports.py)."""
    bw_gbs: float
    """10^9 bytes per second of long transfers alone; inf if no rate was seen."""
    latency_us: float
    """Microseconds of a transfer of no bytes."""
    reliability: float
    """0 to 1: the share of recent transfers that succeeded."""


@dataclass
class _Average:
    latency: float = 1.0
    """Average pace (seconds taken over seconds expected) of the latency of transfers."""
    pace: float = 1.0
    """Average pace of the seconds that grow with the bytes."""
    reliability: float = 1.0

    def slowed(self, line: Line) -> Line:
        """Returns the cost line of a link as recent transfers measured it.

        The latency of `line` is multiplied by `latency`, its seconds per byte by `pace`. Both
        factors are averages of seconds taken over seconds expected.
        """
        return Line(line.a * self.latency, line.b * self.pace)

    def planned(self, line: Line) -> Line:
        """Returns the cost line that planners use: both numbers of the line of `slowed`, divided by
        `reliability`.
        """
        now, sure = self.slowed(line), max(self.reliability, LEAST_RELIABILITY)
        return Line(now.a / sure, now.b / sure)


class Topology:
    """The links between `places` (URIs of devices). `measured` has the measurements of the links,
    `kinds` the transport of each link.

    For one thread at a time.

    >>> with sp.init(["cpu"]) as ctx:
    ...     print(ctx.create_mesh().topology.places)
    ('cpu',)
    """

    def __init__(
        self,
        places: tuple[str, ...],
        measured: SurveyResult,
        kinds: Mapping[Way, str],
        direct: frozenset[Way] = frozenset(),
    ) -> None:
        self.places, self.measured, self.kinds = places, measured, dict(kinds)
        self._averages = {way: _Average() for way in measured.ways}
        lines = {way: fit(points) for way, points in measured.ways.items()}
        adds = {place: fit(points) for place, points in measured.adds.items()}
        whole = Network(places, lines, adds=adds, direct=direct)
        ports = {place: _port(whole, measured, place) for place in places}
        self._alone = replace(whole, ports=ports)
        """The network as it was measured."""
        self._network = self._alone

    @property
    def network(self) -> Network:
        """The network for planners. It is a new object once a link's latency or rate has changed by
        the factor DRIFT.
        """
        now = {way: self._averages[way].planned(n) for way, n in self._alone.links.items()}
        if any(_drifted(line, self._network.links[way]) for way, line in now.items()):
            self._network = replace(self._alone, links=now)
        return self._network

    @property
    def links(self) -> dict[Way, Link]:
        """The links by (from, to), with the rates, latencies and reliability that recent transfers
        had.
        """
        links = {}
        for way, line in sorted(self._alone.links.items()):
            now = self._averages[way]
            rate = self._alone.rate(*way) / now.pace
            links[way] = Link(
                *way, self.kinds[way], rate / 1e9, now.slowed(line).a * 1e6, now.reliability
            )
        return links

    @property
    def ports(self) -> dict[str, Port]:
        """For each place: the bytes per second that all its links together send and receive."""
        return dict(self._alone.ports)

    def adjacency(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Returns the rates of the links in GB/s as float64 [from, to], in the order of `places`; 0
        if there is no link.
        """
        at = {place: i for i, place in enumerate(self.places)}
        made = np.zeros((len(self.places), len(self.places)))
        for (source, to), link in self.links.items():
            made[at[source], at[to]] = link.bw_gbs
        return made

    def took(self, way: Way, ratio: float, nbytes: float) -> None:
        """Records that transfers over a link, of `nbytes` each, took `ratio` times the seconds that
        the network predicts. Ratios that are not positive and finite are ignored.
        """
        average = self._averages.get(way)
        if average is None or not 0 < ratio < math.inf:
            return
        now = average.slowed(self._alone.links[way])
        # `ratio` is the measured time divided by the prediction of `_network`. That prediction may
        # be older than the latest corrections of `average`. So `seen` compares the measured time
        # with a prediction from the present averages.
        seen = math.log(ratio * self._network.links[way].at(nbytes) / now.at(nbytes))
        step = WEIGHT * max(-math.log(FAR), min(math.log(FAR), seen))
        part = min(1.0, now.a / now.at(nbytes))
        average.latency *= math.exp(step * part)
        average.pace *= math.exp(step * (1 - part))
        average.reliability += WEIGHT * (1 - average.reliability)

    def failed(self, way: Way) -> None:
        """Records that a transfer over a link failed."""
        average = self._averages.get(way)
        if average is not None:
            average.reliability -= WEIGHT * average.reliability

    def kept(self) -> SurveyResult:
        """Returns the measurements to store in the profile.

        The measured seconds of each link are corrected by its later transfers, as `slowed` says.
        """
        ways = {}
        for way, points in self.measured.ways.items():
            line = self._alone.links[way]
            now = self._averages[way].slowed(line)
            ways[way] = [(n, seconds * now.at(n) / line.at(n)) for n, seconds in points]
        return replace(self.measured, ways=ways)

    def __str__(self) -> str:
        return "\n".join([*_matrix(self), "", *_ways(self)])


def _drifted(now: Line, assumed: Line) -> bool:
    """Returns whether a cost line's latency or rate has changed by more than the factor DRIFT."""
    parts = ((now.a, assumed.a), (now.b, assumed.b))
    return any(was and not 1 / DRIFT < part / was < DRIFT for part, was in parts)


def _port(alone: Network, measured: SurveyResult, place: str) -> Port:
    """Returns the rates of a place with all its links at once. No rate is below that of the fastest
    link alone.
    """
    out = max((alone.rate(*way) for way in alone.links if way[0] == place), default=0.0)
    into = max((alone.rate(*way) for way in alone.links if way[1] == place), default=0.0)

    def rate(points: list[Point] | None, least: float) -> float:
        line = fit(points) if points else Line(0.0, 0.0)
        return max(least, 1 / line.b) if line.b > 0 else math.inf

    return Port(
        rate(measured.sends.get(place), out),
        rate(measured.receives.get(place), into),
        rate(measured.boths.get(place), max(out, into)),
    )


def _matrix(topology: Topology) -> list[str]:
    """Returns the lines of a table: a row for each source, with the GB/s to each place."""
    width = max(8, *(len(place) for place in topology.places))
    rows = [" ".join(["GB/s from".ljust(width + 2), *(p.rjust(width) for p in topology.places)])]
    for place, rates in zip(topology.places, topology.adjacency(), strict=True):
        cells = (f"{rate:.3g}" if rate else "-" for rate in rates)
        rows.append(" ".join([f"  {place}".ljust(width + 2), *(c.rjust(width) for c in cells)]))
    return rows


def _ways(topology: Topology) -> list[str]:
    """Returns lines of text: one for each direction of a link, then one for each place's ports."""
    rows = [
        f"{one.source} to {one.to}: {one.kind}, {one.bw_gbs:.3g} GB/s, "
        f"{one.latency_us:.3g} us, reliability {one.reliability:.2f}"
        for one in topology.links.values()
    ]
    for place, port in topology.ports.items():
        rates = {"sends": port.send, "receives": port.receive, "both": port.both}
        seen = [f"{name} {rate / 1e9:.3g} GB/s" for name, rate in rates.items() if rate < math.inf]
        if seen:
            rows.append(f"{place}, all ways at once: {', '.join(seen)}")
    return rows
