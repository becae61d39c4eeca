"""What a survey measures of a set of devices, and the names under which a profile keeps it. Data.

An entry of a profile belongs to one device; a way is in the entry of the device that it leads to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from sparkle_drv.backends.rates import slot_key
from sparkle_drv.types import DeviceInfo

from .links.line import Point
from .links.network import HOST

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
        """By name: what is kept of this very device, by `slot_key`."""

    def put(self, info: DeviceInfo, measured: dict[str, list[Point]]) -> None:
        """Keep these, too."""


def load(kept: Kept, infos: Mapping[str, DeviceInfo]) -> Measured | None:
    """What is kept of these devices, by URI; None unless all of it is."""
    entries = {uri: kept.points(info) for uri, info in infos.items()}
    found: dict[str, dict[Any, list[Point]]] = {what: {} for what in WHATS}
    for what, part, uri, name in _names(infos):
        points = entries[uri].get(name)
        if not points:
            return None
        found[what][part] = points
    return Measured(**found)


def store(kept: Kept, infos: Mapping[str, DeviceInfo], measured: Measured) -> None:
    """Keep all of it."""
    entries: dict[str, dict[str, list[Point]]] = {uri: {} for uri in infos}
    for what, part, uri, name in _names(infos):
        points = getattr(measured, what).get(part)
        if points:
            entries[uri][name] = points
    for uri, entry in entries.items():
        kept.put(infos[uri], entry)


WHATS = ("ways", "adds", "sends", "receives", "boths")
LINK = "link:"
"""What names of ways begin with, among those of classes of work; sizes are bytes."""
INTO, BACK = f"{LINK}in", f"{LINK}out"
"""From the host, and to it."""


def between(source: DeviceInfo) -> str:
    """The name, in the entry of another device, of the way from `source` to that."""
    return f"{LINK}from {slot_key(source)}"


def named(infos: Mapping[str, DeviceInfo], uri: str, name: str) -> Iterator[Way]:
    """The way that has this name in the entry of a device; nothing for one from a device that is
    not among `infos`.
    """
    if name == INTO:
        yield HOST, uri
    elif name == BACK:
        yield uri, HOST
    else:
        for other, info in infos.items():
            if other != uri and between(info) == name:
                yield other, uri


def _names(infos: Mapping[str, DeviceInfo]) -> Iterator[tuple[str, Any, str, str]]:
    """(field of Measured, its key, the device whose entry has the points, their name)."""
    for uri in infos:
        others = sorted(slot_key(infos[other]) for other in infos if other != uri)
        yield "adds", uri, uri, "link:mesh adds"
        for other, its in infos.items():
            if other != uri:
                yield "ways", (other, uri), uri, between(its)
        if len(others) > 1:
            for what in ("sends", "receives"):
                yield what, uri, uri, f"link:mesh {what} with {' '.join(others)}"
        if others:
            yield "boths", uri, uri, f"link:mesh boths with {' '.join(others)}"
