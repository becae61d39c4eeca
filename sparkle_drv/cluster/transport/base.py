"""The protocol of transports, which carry messages between endpoints.

A transport may lose, repeat, reorder and delay messages, and others may forge and read them: the
channel encrypts and verifies each message. An endpoint's name is text without "/": a node's
name, or a client's name with a random suffix.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Protocol

MOST_NBYTES = 1 << 20
"""Bytes of one message at most; a longer one raises ValueError before anything is sent."""

Message = bytes | bytearray

MOST_NAME = 64
"""Characters of a name at most."""


def check_name(name: str) -> str:
    """Returns `name` if every transport can use it in addresses of messages (Zenoh: key
    expressions). Raises ValueError otherwise.
    """
    fits = 0 < len(name) <= MOST_NAME and all("!" <= letter <= "~" for letter in name)
    if not fits or set(name) & set("/*$?#"):
        raise ValueError(f"expected a name of printable ASCII without / * $ ? #, got {name[:80]!r}")
    return name


def check_message(message: Message) -> None:
    """Raises ValueError for a message that is too long."""
    if len(message) > MOST_NBYTES:
        raise ValueError(f"message: expected at most {MOST_NBYTES} bytes, got {len(message)}")


class MessageLane(enum.Enum):
    """The urgency of a message. Control messages never wait for bulk."""

    CONTROL = "c"
    BULK = "b"


class Stalled(Exception):
    """Raised if a transport cannot send a message within its time limit. The link then counts as
    lost.
    """


Receive = Callable[[str, Message], None]
"""receive(sender, message), from any thread; `sender` is the message's unverified claim. It must
not block or raise."""

Seen = Callable[[str, bool], None]
"""on_presence(name, alive): an endpoint has appeared or gone. Called from any thread."""


class MessageTransport(Protocol):
    """One endpoint of a transport. Any thread may call any method."""

    name: str
    """Name of this endpoint."""

    def start(self, receive: Receive, on_presence: Seen) -> None:
        """Starts to receive. The caller calls `start` once, before it sends anything."""

    def watch(self, name: str) -> None:
        """Starts reports to `on_presence` about an endpoint: at once if the endpoint is alive, and
        each time it comes or goes.
        """

    def unwatch(self, name: str) -> None:
        """Stops reports to `on_presence` about an endpoint."""

    def send(self, to: str, lane: MessageLane, message: Message) -> None:
        """Sends one message to the endpoint named `to`. If the link accepts no message within a
        few seconds, raises Stalled. A message to an endpoint that is not alive is lost.
        """

    def close(self) -> None:
        """Stops receiving; idempotent. The other endpoints see this endpoint go."""
