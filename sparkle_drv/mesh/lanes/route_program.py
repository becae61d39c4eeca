"""Turns a route into a program: chunks follow one another over its links, which work at once.
All functions are pure.

A place in between has memory for SLOTS chunks, whatever the total size. Chunks use these slots in
turn. A chunk enters its slot once the chunk before it in that slot has been sent on.
"""

from __future__ import annotations

from itertools import pairwise

from sparkle_drv.mesh.links.routes import Route

from .program import Lane, Program, Region, RegionCopy, Step

SLOTS = 3
ALIGN = 256
"""Parts begin at multiples of this many bytes, where every device binds memory: OpenGL allows at
most 256 for SHADER_STORAGE_BUFFER_OFFSET_ALIGNMENT (DeviceInfo.offset_alignment)."""


def route_program(route: Route, nbytes: int) -> Program:
    """Returns the program that copies `nbytes` bytes along `route`.

    They go from the memory named "data" on the first place to that named "data" on the last one.
    """
    chunk = -(-max(1, route.chunk_nbytes) // ALIGN) * ALIGN
    pairs = list(pairwise(route.places))
    steps: list[Step] = []
    for at, begin in enumerate(range(0, nbytes, chunk)):
        size = min(chunk, nbytes - begin)

        def stored(place: str, at: int = at, begin: int = begin, size: int = size) -> Region:
            if place in (route.places[0], route.places[-1]):
                return Region(place, "data", begin, size)
            return Region(place, "temp", at % SLOTS * chunk, size)

        for leg, (source, to) in enumerate(pairs):
            number = at * len(pairs) + leg
            after = [number - 1] if leg else []
            freed = (at - SLOTS) * len(pairs) + leg + 1
            if leg + 1 < len(pairs) and freed >= 0:
                after.append(freed)
            copy = RegionCopy(stored(source), stored(to))
            steps.append(Step(number, Lane(source, to), copy, tuple(after)))
    return Program(tuple(steps))
