"""Chooses the plan of a collective with the least predicted time. All functions are pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from sparkle_drv.mesh.lanes.program import Lane, Program, Step
from sparkle_drv.mesh.links.network import Network

from . import all_reduce
from .bound import all_reduce_s, port_rate
from .fluid import spans, timed
from .islands import by_islands, islands
from .shares import weights

CHUNKS = 48, 8
"""Numbers of chunks that are tried. The first sum returns only after the slowest place has sent one
chunk. With 48 chunks that wait is a fiftieth of the total."""
ISLAND_CHUNKS = 8
"""Chunks of the island plan. Its three parts use different links, so they overlap."""
MOST_STEPS = 60_000
"""Programs with more steps are not tried: predicting them takes seconds."""
LEAST_NBYTES = 64 << 10
"""Data of fewer bytes is not cut into chunks."""
MOST_SHOWN = 40
"""Steps that `explain` prints."""
MOST_EXCHANGED = 16
"""Most places for which `exchange` is tried: each needs scratch memory for the data of all."""
NEAR = 1.05
"""The search stops at a plan within this factor of the lower bound."""


@dataclass(frozen=True)
class CollectivePlan:
    """How a collective will run: its program, with the predicted seconds and their lower bound."""

    name: str
    program: Program
    predicted_s: float
    bound_s: float
    """Seconds that every plan takes at least."""

    @property
    def gap(self) -> float:
        """predicted_s / bound_s - 1; 0 if there is nothing to do, inf without a bound."""
        if not self.bound_s:
            return math.inf if self.predicted_s else 0.0
        return self.predicted_s / self.bound_s - 1

    def __str__(self) -> str:
        count = len(self.program.steps)
        text = f"{self.name}: {count} step{'s' * (count != 1)}, predicted {self.predicted_s:.3g} s"
        if self.gap == math.inf:
            return f"{text}, no lower bound is known"
        return f"{text}, at least {self.bound_s:.3g} s ({self.gap:.0%} above)"

    def explain(self, most: int = MOST_SHOWN) -> str:
        """Returns the plan as `str` gives it, the load of each lane, then the plan's steps.

        Of more than `most` steps, only the first and the last are shown.
        """
        steps, lanes = self.program.steps, dict[Lane, list[Step]]()
        for step in steps:
            lanes.setdefault(step.lane, []).append(step)
        lines = [str(self)]
        for lane, its in sorted(lanes.items()):
            nbytes = sum(step.what.dst.nbytes for step in its)
            busy_s = sum(step.predicted_s for step in its)
            lines.append(f"  {lane}: {len(its)} steps, {nbytes} bytes, {busy_s:.3g} s busy")
        shown = [_line_of(step) for step in steps]
        if len(shown) > most:
            left = len(shown) - most
            shown = [*shown[: most - most // 2], f"  ... {left} more", *shown[-(most // 2) :]]
        return "\n".join(lines + shown)


def _line_of(step: Step) -> str:
    after = f", after {', '.join(map(str, step.after))}" if step.after else ""
    return f"  {step.number}: {step}{after}: {step.predicted_s * 1e6:.3g} us"


NOTHING = CollectivePlan("nothing", Program(()), 0.0, 0.0)


def plan_all_reduce(network: Network, nbytes: int, itemsize: int) -> CollectivePlan:
    """Returns the best plan of an all_reduce of `nbytes` on every place of the network. An element
    has `itemsize` bytes.

    Raises ValueError unless each place has a usable link to every other place.
    """
    places = network.places
    if len(places) < 2 or not nbytes:
        return NOTHING
    check_links(network)
    least_s = all_reduce_s(network, places, nbytes)
    return best(network, all_reduces(network, nbytes, itemsize), least_s)


def check_links(network: Network) -> None:
    """Raises ValueError unless each place has a usable link to every other place."""
    for a, b in permutations(network.places, 2):
        if not network.carries(a, b):
            got = network.links.get((a, b), "none")
            raise ValueError(f"network: expected a link from {a} to {b}, got {got}")


def best(network: Network, tried: Iterable[tuple[str, Program]], least_s: float) -> CollectivePlan:
    """Returns the plan with the least predicted time. `least_s` is the lower bound of all plans."""
    name, fastest, times, least = "", Program(()), None, math.inf
    for name_of, program in tried:
        taken = spans(program, network, least)
        if taken is not None:
            end_s = max((end for _, end in taken), default=0.0)
            if times is None or end_s < least:
                name, fastest, times, least = name_of, program, taken, end_s
        if least <= NEAR * least_s:
            break
    return CollectivePlan(name, timed(fastest, network, times), least, least_s)


def all_reduces(network: Network, nbytes: int, itemsize: int) -> Iterator[tuple[str, Program]]:
    """Yields (name, program) of all algorithms to try, those that are cheap to predict first."""
    places = network.places
    p = len(places)
    if all(pair in network.direct for pair in permutations(places, 2)):
        yield "shared memory", all_reduce.shared(places, nbytes, itemsize)
    yield "doubling", all_reduce.doubling(places, nbytes)
    if 2 < p <= MOST_EXCHANGED and nbytes < LEAST_NBYTES:
        yield "exchange", all_reduce.exchange(places, nbytes)
    shares = weights([port(network, place) for place in places])
    yield "butterfly", all_reduce.butterfly(places, nbytes, itemsize, shares, 1)
    if p > 2:
        yield "ring", all_reduce.ring(ring_order(network), nbytes, itemsize)
    groups = islands(network)
    if groups:
        yield "islands", by_islands(network, groups, nbytes, itemsize, 1)
    for chunks in CHUNKS if nbytes >= LEAST_NBYTES else ():
        if 3 * p * (p - 1) * chunks <= MOST_STEPS:
            program = all_reduce.butterfly(places, nbytes, itemsize, shares, chunks)
            yield f"butterfly of {chunks} chunks", program
        if groups and chunks == ISLAND_CHUNKS:
            yield f"islands, {chunks} chunks", by_islands(network, groups, nbytes, itemsize, chunks)


def ring_order(network: Network, first: str = "") -> Sequence[str]:
    """Returns places in the order of a ring of fast links. Each place is followed by the remaining
    place to which it has the fastest link.
    """
    order = [first or network.places[0]]
    left = [place for place in network.places if place != order[0]]
    while left:
        order.append(max(left, key=lambda to: network.rate(order[-1], to)))
        left.remove(order[-1])
    return order


def port(network: Network, place: str) -> float:
    """Returns the lower of the rates at which a place sends and receives, in bytes per second."""
    others = [other for other in network.places if other != place]
    out = port_rate(network, place, [(place, to) for to in others], "send")
    into = port_rate(network, place, [(by, place) for by in others], "receive")
    return min(out, into, 1e18)
