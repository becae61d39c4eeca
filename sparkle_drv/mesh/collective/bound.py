"""Lower bounds for the seconds of collectives: `all_reduce_s` for all_reduce, `moved_s` for the
others. All functions are pure.

A place is a device with its memory. In an all_reduce, each place must send all of its data at least
once, since the others need the data for their sums. It must also receive at least as much, since
each byte of its result depends on the data of others. To add p vectors, p - 1 of them must move.
Then p - 1 copies of the sum move to the other places. So all ports together send 2 (p - 1) times
the data of one place.

A place reads shared memory in place, so within an island of shared memory nothing has to move. The
limits above then hold between islands. They also hold between islands that slow links separate
(islands.py). If all places share memory, the p - 1 additions are divided among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

from sparkle_drv.mesh.links.line import Line
from sparkle_drv.mesh.links.network import Network, Port

from .islands import Islands, islands, joined


def all_reduce_s(network: Network, places: Sequence[str], nbytes: int) -> float:
    """Returns the least seconds of an all_reduce of `nbytes` on each of `places`. They are the
    least latency of a link, and the time of the data at the rates of ports and links.

    Returns 0 for fewer than two places, inf if a place cannot send or receive.
    """
    if len(places) < 2 or not nbytes:
        return 0.0
    near = joined(places, {pair for pair in network.direct if set(pair) <= set(places)})
    if len(near) == 1:
        return _shared_s(network, places, nbytes)
    limits = [_between_s(network, near, nbytes)]
    far = islands(network) if tuple(places) == network.places else ()
    if far and all(any(set(one) <= set(other) for other in far) for one in near):
        limits.append(_between_s(network, far, nbytes))
    ends = set(places)
    latency = min(line.a for (a, b), line in network.links.items() if a in ends and b in ends)
    return latency + max(limits)


def _shared_s(network: Network, places: Sequence[str], nbytes: int) -> float:
    if any(pair not in network.direct for pair in permutations(places, 2)):
        return 0.0  # some places do not share memory: no bound except 0 is known
    gets = [
        port_rate(network, place, [(by, place) for by in places], "receive") for place in places
    ]
    adds = [_rate(network.adds.get(place)) for place in places]
    made = (nbytes / (add + get) for add, get in zip(adds, gets, strict=True))
    return max((len(places) - 1) * nbytes / sum(adds), *made)


def _between_s(network: Network, islands: Islands, nbytes: int) -> float:
    """Returns the least seconds in which the data of an all_reduce (`nbytes` on each device) can
    pass between islands. The ports of the devices and the links between islands limit the rates.
    """
    everywhere = [place for island in islands for place in island]
    sends, gets, boths = [], [], []
    for island in islands:
        others = [place for place in everywhere if place not in island]
        out = ((place, [(place, to) for to in others]) for place in island)
        into = ((place, [(by, place) for by in others]) for place in island)
        sends.append(sum(port_rate(network, place, links, "send") for place, links in out))
        gets.append(sum(port_rate(network, place, links, "receive") for place, links in into))
        boths.append(sum(network.ports.get(place, Port()).both for place in island))
    if min(*sends, *gets) <= 0:
        return float("inf")
    moved = 2 * (len(islands) - 1) * nbytes
    limits = [
        *(nbytes / rate for rate in (*sends, *gets)),
        *(2 * nbytes / both for both in boths),
        moved / sum(sends),
        moved / sum(gets),
        2 * moved / sum(min(both, s + g) for both, s, g in zip(boths, sends, gets, strict=True)),
    ]
    return max(limits)


def moved_s(
    network: Network,
    places: Sequence[str],
    sends: Mapping[str, int],
    receives: Mapping[str, int],
) -> float:
    """Returns the least seconds of a collective. `sends` and `receives` are the bytes that each
    device (place) must send and receive at least.

    Each received byte was sent by another place. Returns 0 if nothing moves, inf if a place cannot
    send or receive what it must.
    """
    total = max(sum(sends.values()), sum(receives.values()))
    if len(places) < 2 or not total:
        return 0.0
    limits, rates = [], {"send": 0.0, "receive": 0.0}
    for place in places:
        to = [(place, other) for other in places]
        by = [(other, place) for other in places]
        out = port_rate(network, place, to, "send")
        into = port_rate(network, place, by, "receive")
        rates["send"] += out
        rates["receive"] += into
        sent, got = sends.get(place, 0), receives.get(place, 0)
        both = network.ports.get(place, Port()).both
        for nbytes, rate in ((sent, out), (got, into), (sent + got, both)):
            if nbytes:
                limits.append(nbytes / rate if rate > 0 else float("inf"))
    limits += [total / rate if rate > 0 else float("inf") for rate in rates.values()]
    ends = set(places)
    latency = min(line.a for (a, b), line in network.links.items() if a in ends and b in ends)
    return latency + max(limits)


def port_rate(network: Network, place: str, links: Sequence[tuple[str, str]], way: str) -> float:
    """Returns the bytes per second that a place can send or receive over `links` together.

    `way` is "send" or "receive". The port of the place limits the rate.
    """
    port = network.ports.get(place, Port())
    alone = 0.0
    for link in links:
        if link in network.links:
            alone += _rate(network.links[link])
    return min(float(getattr(port, way)), port.both, alone)


def _rate(line: Line | None) -> float:
    """Returns the bytes per second of long transfers; inf if no known limit exists."""
    return 1 / line.b if line is not None and line.b > 0 else float("inf")
