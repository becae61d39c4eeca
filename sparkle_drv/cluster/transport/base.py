"""The protocol of transports, which carry messages between endpoints.

A transport may lose, repeat, reorder and delay messages. It never alters one unnoticed: TLS checks
that, and channel/ checks again by MAC. An endpoint's name is text without "/": a node's name, or a
client's with a random suffix.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Protocol

MOST_NBYTES = 1 << 20
"""Bytes of one message at most; a longer one raises ValueError before anything is sent."""


MOST_NAME = 64
"""Characters of a name at most."""


def check_name(name: str) -> str:
    """`name`, if every transport can use it in a key. Raises ValueError."""
    fits = 0 < len(name) <= MOST_NAME and all("!" <= letter <= "~" for letter in name)
    if not fits or set(name) & set("/*$?#"):
        raise ValueError(f"expected a name of printable ASCII without / * $ ? #, got {name[:80]!r}")
    return name


def check_message(message: bytes) -> None:
    """Raises ValueError for a message that is too long."""
    if len(message) > MOST_NBYTES:
        raise ValueError(f"expected at most {MOST_NBYTES} bytes, got {len(message)}")


class Lane(enum.Enum):
    """How urgent a message is. Control never waits behind bulk."""

    CONTROL = "c"
    BULK = "b"


class Stalled(Exception):
    """A send took longer than the transport's watchdog allows: the link counts as lost."""


Receive = Callable[[str, bytes], None]
"""receive(sender, message), from any thread; `sender` is the message's unverified claim. It must
not block or raise."""

Seen = Callable[[str, bool], None]
"""seen(name, alive): an endpoint has appeared or gone. Called from any thread."""


class Transport(Protocol):
    """One endpoint. Any thread may call any method."""

    name: str
    """Name of this endpoint."""

    def start(self, receive: Receive, seen: Seen) -> None:
        """Begins to receive. Called once, before anything is sent."""

    def watch(self, name: str) -> None:
        """Reports this endpoint to `seen` from now on: at once if it is there, and when it goes."""

    def unwatch(self, name: str) -> None:
        """Stops reports about it."""

    def send(self, to: str, lane: Lane, message: bytes) -> None:
        """Sends one message to `to`. It may wait for room as long as the watchdog allows, then
        raises Stalled. A message to an endpoint that is not there is lost.
        """

    def close(self) -> None:
        """Stops receiving; idempotent. Others see this endpoint go."""
