"""Chooses the plans with the least predicted time for broadcast, scatter, gather and the like
(moves.py). All functions are pure.

`parts` are (begin, bytes) of the operand or result of each device, in the order of
`network.places`. All functions raise ValueError unless each device has a link to every other one.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparkle_drv.mesh.lanes.program import Program
from sparkle_drv.mesh.lanes.route_program import ALIGN
from sparkle_drv.mesh.links.network import Network

from . import moves
from .bound import moved_s
from .choose import CollectivePlan, best, check_links, port, ring_order
from .moves import Parts

CHUNKS = (1, 4, 16, 64)
"""Numbers of chunks that are tried for a chain."""


def plan_broadcast(network: Network, root: str, nbytes: int, itemsize: int) -> CollectivePlan:
    """Returns the plan that sends `nbytes` from the root to all others."""
    check_links(network)
    others = [place for place in network.places if place != root]
    receives = dict.fromkeys(others, nbytes)
    least_s = moved_s(network, network.places, {root: nbytes}, receives)
    return best(network, _broadcasts(network, root, nbytes, itemsize), least_s)


def _broadcasts(
    network: Network, root: str, nbytes: int, itemsize: int
) -> Iterator[tuple[str, Program]]:
    rates = {place: port(network, place) for place in network.places if place != root}
    fast = [root, *sorted(rates, key=lambda place: -rates[place])]
    yield "tree", moves.tree(fast, nbytes)
    if len(fast) > 2:
        order = ring_order(network, root)
        for chunks in CHUNKS:
            yield f"chain of {chunks} chunks", moves.chain(order, nbytes, itemsize, chunks)
        total = sum(rates.values())
        shares = [rates[place] / total for place in fast[1:]] if total > 0 else []
        if shares:
            yield "spread", moves.spread(fast, nbytes, itemsize, shares)


def plan_scatter(network: Network, root: str, parts: Parts) -> CollectivePlan:
    """Returns the plan that sends parts of the root's array to their places."""
    check_links(network)
    away = {p: size for p, (_, size) in zip(network.places, parts, strict=True) if p != root}
    least_s = moved_s(network, network.places, {root: sum(away.values())}, away)
    return best(network, [("scatter", moves.scatter(network.places, root, parts))], least_s)


def plan_gather(network: Network, root: str, parts: Parts) -> CollectivePlan:
    """Returns the plan that sends the parts of all places to the root."""
    check_links(network)
    away = {p: size for p, (_, size) in zip(network.places, parts, strict=True) if p != root}
    least_s = moved_s(network, network.places, away, {root: sum(away.values())})
    return best(network, [("gather", moves.gather(network.places, root, parts))], least_s)


def plan_all_gather(network: Network, parts: Parts) -> CollectivePlan:
    """Returns the plan that sends the part of each place to all others."""
    check_links(network)
    places = network.places
    own = {place: size for place, (_, size) in zip(places, parts, strict=True)}
    whole = sum(own.values())
    least_s = moved_s(network, places, own, {place: whole - own[place] for place in places})
    tried = [("all to all", moves.all_gather(places, parts))]
    if len(places) > 2:
        tried.append(("ring", moves.all_gather_ring(places, parts, ring_order(network))))
    return best(network, tried, least_s)


def plan_reduce_scatter(network: Network, parts: Parts) -> CollectivePlan:
    """Returns the plan that adds up the arrays of all devices and gives each device its part of the
    sum.
    """
    check_links(network)
    places = network.places
    own = {place: size for place, (_, size) in zip(places, parts, strict=True)}
    whole = sum(own.values())
    least_s = moved_s(network, places, {place: whole - own[place] for place in places}, own)
    tried = [("all to all", moves.reduce_scatter(places, parts))]
    # The additions of the ring read each array at the offsets `begin`, without a copy. Devices bind
    # memory only at multiples of ALIGN.
    if len(places) > 2 and all(begin % ALIGN == 0 for begin, _ in parts):
        tried.append(("ring", moves.reduce_scatter_ring(places, parts, ring_order(network))))
    return best(network, tried, least_s)
