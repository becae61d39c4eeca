"""Finds the fastest route for some bytes between two places, over other places if that is faster.
All functions are pure.

A route of several links passes its bytes on in m equal chunks of c bytes. All links work at once,
so the route takes this many seconds:

    T(m) = sum(a + b c) + (m - 1) max(a + b c; 2 c / both)

`a + b c` is the time of a chunk on one link, limited by the ports at its ends. `both` is the rate
at which a place in between sends and receives together; it matters only for a link that is not full
duplex. T is convex in m, since each term of the maximum is constant + k / m + l m with k, l >= 0.
With m = 1 each place stores all bytes before it sends them.

A longer route never takes less time than its beginning, so the search extends the fastest
unfinished route. It drops a route to a place if another route there is no worse in every sum and in
every term of the maximum (E. Martins, On a multicriteria shortest path problem, EJOR 16, 1984).
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise

from .line import Line
from .network import Network, Port

LEAST_CHUNK_NBYTES = 4096
"""Bytes of the smallest chunk. Below a page, calls cost more than a cost line predicts."""
PREFERENCE = 1.05
"""A direct link is taken if it needs at most this many times the least time."""
MOST_SHOWN = 3
"""Other routes that an explanation names."""


@dataclass(frozen=True)
class Route:
    """How bytes get from the first of `places` to the last, and the predicted time."""

    places: tuple[str, ...]
    legs: tuple[Line, ...]
    """The cost line of each link of the route, limited by the ports at the ends of the link."""
    predicted_s: float
    chunk_nbytes: int
    """Bytes of a chunk; all bytes if nothing is pipelined."""
    direct: bool
    """Whether the route has a single leg."""

    def __str__(self) -> str:
        text = f"{' -> '.join(self.places)}: {self.predicted_s * 1e6:.6g} us"
        return text if self.direct else f"{text}, chunks of {self.chunk_nbytes} bytes"


def best_route(network: Network, src: str, dst: str, nbytes: int) -> Route:
    """Returns the route with the least predicted seconds. The direct link wins if it takes at most
    PREFERENCE times as long as that route.

    Of equally fast routes the one with the least sum of seconds per byte wins, then the one with
    fewer links. A link is not used if a or b of its cost line is infinite or negative, or if the
    rate of one of its ports is 0.

    Raises ValueError if `src` or `dst` is unknown, both are the same, there is no route, or
    `nbytes` is negative.
    """
    _check(network, src, dst, nbytes)
    best = _search(network, src, dst, nbytes)
    if best is None:
        raise ValueError(f"dst: expected a place that {src} reaches, got {dst}")
    own = _route(network, (src, dst), nbytes)
    return own if own and own.predicted_s <= PREFERENCE * best.predicted_s else best


def reaches(network: Network, src: str, dst: str) -> bool:
    """Returns whether there is a route from `src` to `dst`, of one or more links."""
    return _search(network, src, dst, 1) is not None


def explain_route(network: Network, src: str, dst: str, nbytes: int) -> str:
    """Returns a text: the route that `best_route` takes, and why.

    The text also lists up to MOST_SHOWN other routes: those with at most one place in between, and
    the fastest of all routes. Raises the errors of `best_route`.
    """
    taken, fastest = best_route(network, src, dst, nbytes), _search(network, src, dst, nbytes)
    between = [(src, place, dst) for place in network.places if place not in (src, dst)]
    looked = [_route(network, places, nbytes) for places in [(src, dst), *between]]
    others = [route for route in looked if route and route.places != taken.places]
    others.sort(key=lambda route: route.predicted_s)
    assert fastest is not None
    if all(fastest.places != route.places for route in (taken, *others)):
        others.insert(0, fastest)
    lines = [f"{nbytes} bytes by {taken}", f"  {_why(taken, others)}"]
    lines += [f"  instead of {route}" for route in others[:MOST_SHOWN]]
    more = len(others) - MOST_SHOWN
    return "\n".join([*lines, f"  ... {more} more that take longer"] if more > 0 else lines)


def _why(taken: Route, others: list[Route]) -> str:
    if not others:
        return "no other way with at most one place in between"
    faster = others[0].predicted_s < taken.predicted_s
    if taken.direct and faster:
        return f"the direct link is preferred: it is within {PREFERENCE - 1:.0%} of the fastest"
    return f"it is {others[0].predicted_s / taken.predicted_s:.3g} times as fast as the next one"


def _check(network: Network, src: str, dst: str, nbytes: int) -> None:
    for name, place in (("src", src), ("dst", dst)):
        if place not in network.places:
            raise ValueError(f"{name}: expected one of {', '.join(network.places)}, got {place}")
    if src == dst:
        raise ValueError(f"dst: expected another place than src, got {dst}")
    if nbytes < 0:
        raise ValueError(f"nbytes: expected 0 or more, got {nbytes}")


@dataclass(frozen=True)
class _Label:
    """A route from the source to some place, which the search may continue to the destination.

    The fields are terms of the route's time (see `seconds`). They suffice to compute the time of
    each continuation.
    """

    places: tuple[str, ...]
    a: float = 0.0
    b: float = 0.0
    terms: frozenset[tuple[float, float]] = frozenset()
    """(a, b) of each term a + b c of the maximum."""

    def onwards(self, network: Network, place: str) -> _Label | None:
        """Returns this route, extended by the link to `place`, or None if there is no such link."""
        at = self.places[-1]
        leg = _leg(network, at, place)
        if leg is None:
            return None
        terms = {(leg.a, leg.b)}
        if len(self.places) > 1:
            terms.add((0.0, 2 / network.ports.get(at, Port()).both))
        return _Label((*self.places, place), self.a + leg.a, self.b + leg.b, self.terms | terms)

    def no_worse(self, other: _Label) -> bool:
        """Returns whether every continuation of this route is at least as fast as that of the other
        one.
        """
        return (
            self.a <= other.a
            and self.b <= other.b
            and len(self.places) <= len(other.places)
            and all(any(a <= x and b <= y for x, y in other.terms) for a, b in self.terms)
        )

    def fastest(self, nbytes: int) -> tuple[float, int]:
        """Returns the shortest time of this route in seconds, and the number of chunks for it."""
        low, high = 1, 1 if len(self.places) < 3 else max(1, nbytes // LEAST_CHUNK_NBYTES)
        while low < high:
            middle = (low + high) // 2
            if self.seconds(nbytes, middle) <= self.seconds(nbytes, middle + 1):
                high = middle
            else:
                low = middle + 1
        return self.seconds(nbytes, low), low

    def seconds(self, nbytes: int, chunks: int) -> float:
        """Returns the seconds that `nbytes` take over this route if they are passed on in `chunks`
        equal chunks.
        """
        c = nbytes / chunks
        period = max((a + b * c for a, b in self.terms), default=0.0)
        return max(self.a + self.b * c + (chunks - 1) * period, 1e-12)


def _leg(network: Network, source: str, to: str) -> Line | None:
    """Returns the cost line of a link. Its rate is limited by the ports of the devices at both
    ends.

    Returns None if the link carries no bytes.
    """
    if not network.carries(source, to):
        return None
    return Line(network.links[source, to].a, 1 / network.rate(source, to))


def _search(network: Network, src: str, dst: str, nbytes: int) -> Route | None:
    """Returns the fastest route, or None if there is no route."""
    start = _Label((src,))
    heap = [(0.0, 0.0, 1, start.places, start)]
    kept: dict[str, list[_Label]] = {}
    while heap:
        *_, places, label = heappop(heap)
        if places[-1] == dst:
            return _route(network, places, nbytes)
        for place in network.places:
            longer = None if place in places else label.onwards(network, place)
            if longer is None:
                continue
            rivals = kept.setdefault(place, [])
            if any(rival.no_worse(longer) for rival in rivals):
                continue
            rivals.append(longer)
            key = (longer.fastest(nbytes)[0], longer.b, len(longer.places), longer.places)
            heappush(heap, (*key, longer))
    return None


def _route(network: Network, places: tuple[str, ...], nbytes: int) -> Route | None:
    """Returns the route over these places, or None if a link is missing."""
    label: _Label | None = _Label(places[:1])
    legs = []
    for source, to in pairwise(places):
        label = label and label.onwards(network, to)
        leg = _leg(network, source, to)
        if label is None or leg is None:
            return None
        legs.append(leg)
    assert label is not None
    seconds, chunks = label.fastest(nbytes)
    return Route(places, tuple(legs), seconds, -(-nbytes // chunks), len(legs) == 1)
