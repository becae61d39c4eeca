"""Judges plans of collectives, and draws random networks for them. This module does not know how
plans are made.

`counted` runs a program on counts of contributions instead of data. It takes the steps in a random
order that their dependencies allow. If a step fails to wait for an operand, some order gives a
wrong count.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence

import numpy as np

from sparkle_drv.mesh.lanes.program import Lane, Program, Region, RegionCopy, Step
from sparkle_drv.mesh.links.line import Line
from sparkle_drv.mesh.links.network import Network, Port

POISON = -(1 << 20)
"""Marks memory that was never written; no sum of contributions is as low."""


def counted(
    program: Program, places: Sequence[str], nbytes: int, itemsize: int, seed: int
) -> dict[str, np.ndarray[tuple[int, int], np.dtype[np.int64]]]:
    """Runs the program on counts instead of data. Returns an array for each device in `places`.

    Entry [e, d] says how many times element e of that device has the contribution of device d.
    Raises ValueError if a step's region has a part of an element, or exceeds its memory.
    """
    size, p = nbytes // itemsize, len(places)
    data = {place: np.zeros((size, p), np.int64) for place in places}
    for number, place in enumerate(places):
        data[place][:, number] = 1
    most = max(
        (region.offset + region.nbytes for s in program.steps for region in (s.what.src, s.what.dst)
         if region.memory == "temp"), default=0,
    )  # fmt: skip
    temp = {place: np.full((most // itemsize, p), POISON, np.int64) for place in places}

    def at(region: Region) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        whole = (temp if region.memory == "temp" else data)[region.place]
        begin, end = region.offset, region.offset + region.nbytes
        if begin % itemsize or end % itemsize or end > len(whole) * itemsize:
            raise ValueError(f"expected whole elements within {region.memory}, got {region}")
        return whole[begin // itemsize : end // itemsize]

    for step in ordered(program, seed):
        if isinstance(step.what, RegionCopy):
            at(step.what.dst)[:] = at(step.what.src)
        else:
            at(step.what.dst)[:] += at(step.what.src)
    return data


def ordered(program: Program, seed: int) -> list[Step]:
    """Returns the steps in a random order that their lanes and dependencies allow."""
    chance, order = random.Random(seed), list[Step]()
    lanes: dict[Lane, deque[Step]] = {}
    missing, readers = [len(step.after) for step in program.steps], dict[int, list[Step]]()
    for step in program.steps:
        lanes.setdefault(step.lane, deque()).append(step)
        for before in step.after:
            readers.setdefault(before, []).append(step)
    ready = [lane for lane, steps in lanes.items() if not missing[steps[0].number]]
    while ready:
        at = chance.randrange(len(ready))
        lane, ready[at] = ready[at], ready[-1]
        ready.pop()
        step = lanes[lane].popleft()
        order.append(step)
        for reader in readers.get(step.number, ()):
            missing[reader.number] -= 1
            if not missing[reader.number] and reader.lane != lane:
                ready += [reader.lane] if lanes[reader.lane][0] is reader else []
        if lanes[lane] and not missing[lanes[lane][0].number]:
            ready.append(lane)
    assert len(order) == len(program.steps)
    return order


def star(rates: Sequence[float], latency_s: float = 20e-6) -> Network:
    """Returns a network with one device for each rate. The device's port sends and receives at this
    rate, in bytes per second. Only the ports limit a link.
    """
    places = tuple(f"d{at}" for at in range(len(rates)))
    return Network(
        places,
        {(a, b): Line(latency_s, 0.0) for a in places for b in places if a != b},
        {place: Port(rate, rate) for place, rate in zip(places, rates, strict=True)},
    )


def unequal(seed: int, most: int = 16) -> Network:
    """Returns a random network of 2 to `most` devices with ports of 10 MB/s to 1 GB/s."""
    chance = random.Random(seed)
    return star([10 ** chance.uniform(7, 9) for _ in range(chance.randint(2, most))])


def linked(seed: int, most: int = 8) -> Network:
    """Returns a random network of 2 to `most` devices with a link for each pair. Some ports are
    half duplex.
    """
    chance = random.Random(seed)
    places = tuple(f"d{at}" for at in range(chance.randint(2, most)))
    links = {
        (a, b): Line(10 ** chance.uniform(-5.3, -4), 10 ** -chance.uniform(7, 9))
        for a in places
        for b in places
        if a != b
    }
    ports = {}
    for place in places:
        send, receive = (10 ** chance.uniform(7, 9) for _ in range(2))
        both = chance.choice([float("inf"), max(send, receive)])
        ports[place] = Port(send, receive, both)
    return Network(places, links, ports)
