"""The protocol of transports: what carries messages between endpoints.

A transport may lose, repeat, reorder and delay messages. It never alters one in silence: a TLS link
checks that, and channel/ checks it again by MAC. An endpoint's name is text without "/": a node's
name, or a client's with a random tail.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Protocol

MOST_NBYTES = 1 << 20
"""Bytes of one message at most: more is ValueError before anything is sent."""


MOST_NAME = 64
"""Characters of a name."""


def check_name(name: str) -> str:
    """The name itself, if it can stand in a key of every transport."""
    fits = 0 < len(name) <= MOST_NAME and all("!" <= letter <= "~" for letter in name)
    if not fits or set(name) & set("/*$?#"):
        raise ValueError(f"expected a name of printable ASCII without / * $ ? #, got {name[:80]!r}")
    return name


def check_message(message: bytes) -> None:
    """ValueError for a message that is too long."""
    if len(message) > MOST_NBYTES:
        raise ValueError(f"expected at most {MOST_NBYTES} bytes, got {len(message)}")


class Lane(enum.Enum):
    """How urgent a message is. Control never waits behind bulk."""

    CONTROL = "c"
    BULK = "b"


class Stalled(Exception):
    """The transport took a message for longer than its watchdog allows: the link is as good as
    lost."""


Receive = Callable[[str, bytes], None]
"""receive(sender, message), from any thread; `sender` is what the message claims, unproven. It does
not block and does not raise."""

Seen = Callable[[str, bool], None]
"""seen(name, alive): an endpoint has appeared or has gone, from any thread."""


class Transport(Protocol):
    """One endpoint. Any thread may call any method."""

    name: str
    """Of this endpoint."""

    def start(self, receive: Receive, seen: Seen) -> None:
        """Begin to receive; called once, before anything is sent."""

    def watch(self, name: str) -> None:
        """Tell `seen` of this endpoint from now on: at once if it is there, and when it goes."""

    def unwatch(self, name: str) -> None:
        """Tell nothing more of it."""

    def send(self, to: str, lane: Lane, message: bytes) -> None:
        """Hand over one message for `to`. It may wait for room as long as the watchdog allows, and
        raises Stalled after that. A message for an endpoint that is not there is lost.
        """

    def close(self) -> None:
        """Receive nothing more; idempotent. Others see this endpoint go."""
