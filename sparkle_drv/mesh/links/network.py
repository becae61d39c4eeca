"""What planners of routes and collectives read of a set of places: links and ports, as data. Pure.

A transfer of n bytes over a link alone takes `links[source, to].at(n)` seconds: latency a, then
bytes at 1 / b. Transfers that happen at once share the ports of their ends: a port limits the sum
of their rates, and each gets its max-min fair share (D. Bertsekas, R. Gallager, Data Networks, 2nd
edition, 1992, section 6.5.2). The latency of a transfer takes nothing of a port.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .line import Line

HOST = "host"
"""The place that is the host's memory: numpy arrays are there."""


@dataclass(frozen=True)
class Port:
    """Bytes a second of all transfers of one place at once; infinite where nothing limits them."""

    send: float = float("inf")
    receive: float = float("inf")
    both: float = float("inf")
    """Sending and receiving together: a link that is not duplex."""


@dataclass(frozen=True)
class Network:
    """Places and what is known of the ways between them."""

    places: tuple[str, ...]
    """URIs of devices, and HOST."""
    links: Mapping[tuple[str, str], Line]
    """By (from, to): seconds by bytes of one transfer alone. No entry: no way."""
    ports: Mapping[str, Port] = field(default_factory=dict)
    """By place; no entry: nothing limits it but its links."""
    adds: Mapping[str, Line] = field(default_factory=dict)
    """By place: seconds by bytes to add one array to another there; no entry: no time."""
    direct: frozenset[tuple[str, str]] = frozenset()
    """Links whose ends share memory: each computes on the data of the other in place."""

    def carries(self, source: str, to: str) -> bool:
        """Is there a link over which bytes arrive? Not where its line is infinite, negative or no
        number, or where a port at its ends has a rate of 0.
        """
        link = self.links.get((source, to))
        if link is None or source == to:
            return False
        sane = 0 <= link.a < float("inf") and 0 <= link.b < float("inf")
        return sane and self.rate(source, to) > 0

    def rate(self, source: str, to: str) -> float:
        """Bytes a second of long transfers over a link alone, its ports included; 0: no link."""
        link = self.links.get((source, to))
        if link is None:
            return 0.0
        out, into = self.ports.get(source, Port()), self.ports.get(to, Port())
        own = 1 / link.b if link.b > 0 else float("inf")
        return min(own, out.send, out.both, into.receive, into.both)
