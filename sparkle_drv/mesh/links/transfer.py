"""Predicts how long it takes to bring data to a place from the nearest place that has a copy. All
functions are pure.

The prediction uses the cost lines of the links. A transfer uses the direct link, or goes by way
of the host if there is none. `same(place)` says whether a place's memory is the host's: no byte
moves from there to HOST.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from .line import Line
from .network import HOST

Lines = Mapping[tuple[str, str], Line]
"""For each (from, to), the cost line of a transfer in bytes. `from` or `to` may be HOST."""
Same = Callable[[str], bool]


def transfer_s(
    lines: Lines, same: Same, nbytes: int, places: frozenset[str], to: str
) -> float:  # fmt: skip
    """Returns the seconds of the fastest transfer to `to` from a place of `places`.

    `places` have the data. The result is 0 if `to` has the data already. Without a direct link the
    bytes go by way of the host.
    """
    if nbytes == 0 or to in places or (HOST in places and same(to)):
        return 0.0
    return min((_link_s(lines, same, place, to, nbytes) for place in places), default=float("inf"))


def nearest(lines: Lines, same: Same, nbytes: int, places: Iterable[str], to: str) -> list[str]:
    """Returns `places` sorted by the time that `nbytes` take from there to `to`, the least
    first.
    """
    return sorted(places, key=lambda place: (_link_s(lines, same, place, to, nbytes), place))


def _link_s(lines: Lines, same: Same, source: str, to: str, nbytes: int) -> float:
    direct = lines.get((source, to))
    if direct is not None:
        return direct.at(nbytes)
    return _host_s(lines, same, source, HOST, nbytes) + _host_s(lines, same, HOST, to, nbytes)


def _host_s(lines: Lines, same: Same, source: str, to: str, nbytes: int) -> float:
    if same(to if source == HOST else source):
        return 0.0
    link = lines.get((source, to))
    return link.at(nbytes) if link else float("inf")
