"""What a survey measures of a set of devices, and the names under which a profile keeps it. Data.

An entry of a profile belongs to one device; a way is in the entry of the device that it leads to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from sparkle_drv.backends.rates import place
from sparkle_drv.types import DeviceInfo

from .links.line import Point

Way = tuple[str, str]
"""(from, to), URIs."""


@dataclass(frozen=True)
class Measured:
    """What a survey found. Points are (bytes, seconds)."""

    ways: Mapping[Way, list[Point]]
    adds: Mapping[str, list[Point]] = field(default_factory=dict)
    """By place: to add one array to another there."""
    sends: Mapping[str, list[Point]] = field(default_factory=dict)
    """By place: all its ways out at once; the bytes of all together."""
    receives: Mapping[str, list[Point]] = field(default_factory=dict)
    boths: Mapping[str, list[Point]] = field(default_factory=dict)
    """All ways in and out at once."""


class Kept(Protocol):
    """Keeps points between runs: sched/model/profile.py."""

    def points(self, info: DeviceInfo) -> Mapping[str, list[Point]]:
        """By name: what is kept of this very device, by `place`."""

    def put(self, info: DeviceInfo, measured: dict[str, list[Point]]) -> None:
        """Keep these, too."""


def load(kept: Kept, infos: Mapping[str, DeviceInfo]) -> Measured | None:
    """What is kept of these devices, by URI; None unless all of it is."""
    entries = {uri: kept.points(info) for uri, info in infos.items()}
    found: dict[str, dict[Any, list[Point]]] = {what: {} for what in WHATS}
    for what, key, uri, name in _names(infos):
        points = entries[uri].get(name)
        if not points:
            return None
        found[what][key] = points
    return Measured(**found)


def store(kept: Kept, infos: Mapping[str, DeviceInfo], measured: Measured) -> None:
    """Keep all of it."""
    entries: dict[str, dict[str, list[Point]]] = {uri: {} for uri in infos}
    for what, key, uri, name in _names(infos):
        points = getattr(measured, what).get(key)
        if points:
            entries[uri][name] = points
    for uri, entry in entries.items():
        kept.put(infos[uri], entry)


WHATS = ("ways", "adds", "sends", "receives", "boths")


def _names(infos: Mapping[str, DeviceInfo]) -> Iterator[tuple[str, Any, str, str]]:
    """(field of Measured, its key, the device whose entry has the points, their name)."""
    for uri in infos:
        others = sorted(place(infos[other]) for other in infos if other != uri)
        yield "adds", uri, uri, "link:mesh adds"
        for other, its in infos.items():
            if other != uri:
                yield "ways", (other, uri), uri, f"link:mesh from {place(its)}"
        if len(others) > 1:
            for what in ("sends", "receives"):
                yield what, uri, uri, f"link:mesh {what} with {' '.join(others)}"
        if others:
            yield "boths", uri, uri, f"link:mesh boths with {' '.join(others)}"
