"""Links and ports of a set of places, as data that planners of routes and collectives read.

A transfer of n bytes that has a link alone takes `links[source, to].at(n)` seconds: latency a, then
bytes at 1 / b. Simultaneous transfers share the ports at their ends. A port limits the sum of their
rates, and each gets its max-min fair share (D. Bertsekas, R. Gallager, Data Networks, 2nd edition,
1992, section 6.5.2). A transfer in its latency uses no port.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .line import Line

HOST = "host"
"""The place that is the host's memory, where numpy arrays are."""


@dataclass(frozen=True)
class Port:
    """The limits of one device's links: bytes per second of all its transfers together; inf if
    nothing limits them.
    """

    send: float = float("inf")
    receive: float = float("inf")
    both: float = float("inf")
    """Limit of sending and receiving together: finite for a link that is not full duplex."""


@dataclass(frozen=True)
class Network:
    """Places, and what is known of the links between them."""

    places: tuple[str, ...]
    """URIs of devices, and HOST."""
    links: Mapping[tuple[str, str], Line]
    """For each (from, to), the cost line (by bytes) of a transfer that has the link alone. No
    entry means no link."""
    ports: Mapping[str, Port] = field(default_factory=dict)
    """The port of each place. A place without an entry is limited by its links alone."""
    adds: Mapping[str, Line] = field(default_factory=dict)
    """For each place, the cost line (by bytes) of adding one array to another. No entry means
    that additions take no time."""
    direct: frozenset[tuple[str, str]] = frozenset()
    """Links whose ends share memory: each end computes on the other's data in place."""

    def carries(self, source: str, to: str) -> bool:
        """Returns whether there is a usable link.

        A link is not usable if a or b of its cost line is infinite, negative or nan. It is not
        usable either if a port at its ends has rate 0.
        """
        link = self.links.get((source, to))
        if link is None or source == to:
            return False
        sane = 0 <= link.a < float("inf") and 0 <= link.b < float("inf")
        return sane and self.rate(source, to) > 0

    def rate(self, source: str, to: str) -> float:
        """Returns the bytes per second of long transfers over a link, while no other link is used.

        The ports at both ends limit the rate. Returns 0 if there is no link.
        """
        link = self.links.get((source, to))
        if link is None:
            return 0.0
        out, into = self.ports.get(source, Port()), self.ports.get(to, Port())
        own = 1 / link.b if link.b > 0 else float("inf")
        return min(own, out.send, out.both, into.receive, into.both)
