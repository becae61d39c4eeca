"""The results of a survey of some devices as data, and their names in a profile.

An entry of a profile belongs to one device. A link is in the entry of its destination.
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
"""(from, to) as URIs: one direction of a link."""


@dataclass(frozen=True)
class SurveyResult:
    """What a survey of links measured: lists of points, which are (bytes, seconds)."""

    ways: Mapping[Way, list[Point]]
    adds: Mapping[str, list[Point]] = field(default_factory=dict)
    """For each place, the points of adding one array to another there."""
    sends: Mapping[str, list[Point]] = field(default_factory=dict)
    """For each place, the points of sending over all its links at once, with the bytes of all
    together."""
    receives: Mapping[str, list[Point]] = field(default_factory=dict)
    boths: Mapping[str, list[Point]] = field(default_factory=dict)
    """For each place, the points of sending and receiving over all its links at once."""


class PointStore(Protocol):
    """A store for the measured points (bytes, seconds) of links, which outlives the process.

    sched/model/profile.py is one.
    """

    def points(self, info: DeviceInfo) -> Mapping[str, list[Point]]:
        """Returns the points that are stored for this device, as a dict: name -> points.

        The store finds a device by its `slot_key`.
        """

    def put(self, info: DeviceInfo, measured: dict[str, list[Point]]) -> None:
        """Adds these points to those that are stored for the device."""


def load(kept: PointStore, infos: Mapping[str, DeviceInfo]) -> SurveyResult | None:
    """Returns the measurements of the links between the devices in `infos`, a dict by URI. They are
    read from `kept`. Returns None if the measurement of any link is missing.
    """
    entries = {uri: kept.points(info) for uri, info in infos.items()}
    by_kind: dict[str, dict[Any, list[Point]]] = {what: {} for what in WHATS}
    for what, part, uri, name in _names(infos):
        points = entries[uri].get(name)
        if not points:
            return None
        by_kind[what][part] = points
    return SurveyResult(**by_kind)


def store(kept: PointStore, infos: Mapping[str, DeviceInfo], measured: SurveyResult) -> None:
    """Puts all measurements into `kept`. `infos` are the devices by URI."""
    entries: dict[str, dict[str, list[Point]]] = {uri: {} for uri in infos}
    for what, part, uri, name in _names(infos):
        points = getattr(measured, what).get(part)
        if points:
            entries[uri][name] = points
    for uri, entry in entries.items():
        kept.put(infos[uri], entry)


WHATS = ("ways", "adds", "sends", "receives", "boths")
LINK = "link:"
"""Prefix of the names of links, which share a profile with classes of work. The sizes of a link's
points are bytes."""
INTO, BACK = f"{LINK}in", f"{LINK}out"
"""The names of the links from the host to a device, and back."""


def between(source: DeviceInfo) -> str:
    """Returns the name under which a profile stores the link from `source` to another device.

    The profile stores it in the entry of that other device.
    """
    return f"{LINK}from {slot_key(source)}"


def named(infos: Mapping[str, DeviceInfo], uri: str, name: str) -> Iterator[Way]:
    """Yields the link that has this name in the profile's entry of the device `uri`. Yields nothing
    if the link's source is not among `infos`.
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
    """Yields where each measurement of these devices is in a SurveyResult and in a profile.

    The first two values are the field of SurveyResult and the key in that field. The third is the
    URI of the device whose entry in the profile has the points. The last is the name of the points
    in that entry.
    """
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
