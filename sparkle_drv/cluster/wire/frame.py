"""Frames: "SPK2", the head's size, the head, the payload, and in a session the tag.

The head is a msgpack array: kind, session, epoch, number, ack, then fields that the kind adds. A
session encrypts every payload by AES-256-GCM; the tag authenticates all bytes of the frame. Heads
are readable on the way. Only a HELLO, which is sent before the session has keys, has no tag.
"""

from __future__ import annotations

import enum
import struct
from typing import Any, NamedTuple

from sparkle_drv.cluster.wire.values import Damaged, pack, unpack

MAGIC = b"SPK2"
MOST_HEAD = 512  # bytes
MOST_NUMBER = 2**63 - 1
_PREFIX = struct.Struct("<4sI")


class Kind(enum.IntEnum):
    """The kinds of frames."""

    HELLO = 0
    """A message of the handshake, before the session has keys."""
    DATA = 1
    """[first]: items of the ordered stream, from that number on."""
    ACK = 2
    """Only the head."""
    CHUNK = 3
    """[transfer, index]: a piece of bulk."""
    GRANT = 4
    """[transfer, upto, missing]: the chunks that the receiver takes; upto -1 if it has all."""
    END = 5
    """The session ends; the payload says why."""
    PING = 6
    """An ACK that asks for one."""


# How many numbers a frame of each kind adds to the head.
_MORE = {kind: 0 for kind in Kind} | {Kind.DATA: 1, Kind.CHUNK: 2, Kind.GRANT: 3}
_KINDS = {int(kind): kind for kind in Kind}


class Head(NamedTuple):
    """The fields of every frame's head."""

    kind: Kind
    session: bytes
    epoch: int
    number: int
    """Counts the frames of one end, chunks apart from all others."""
    ack: int
    more: tuple[Any, ...] = ()


def hello(session: bytes, payload: bytes) -> bytes:
    """Returns a HELLO frame. `session` is the number of the handshake, 16 bytes."""
    return opening(Head(Kind.HELLO, session, 0, 0, 0)) + payload


def opening(head: Head) -> bytes:
    """Returns the bytes of a frame before its payload."""
    raw = pack([int(head.kind), *head[1:5], *head.more])
    return _PREFIX.pack(MAGIC, len(raw)) + raw


class Frame:
    """A received frame. `Opener.open` must verify it before use."""

    __slots__ = ("head", "opening", "payload")

    def __init__(self, data: bytes | bytearray) -> None:
        """Parses a frame. Raises Damaged if the bytes are not a frame."""
        if len(data) < _PREFIX.size:
            raise Damaged(f"frame: expected at least {_PREFIX.size} bytes, got {len(data)}")
        magic, nbytes = _PREFIX.unpack_from(data)
        if magic != MAGIC:
            raise Damaged(f"expected a frame that begins with {MAGIC!r}, got {magic!r}")
        begin = _PREFIX.size + nbytes
        if nbytes > MOST_HEAD or begin > len(data):
            raise Damaged(f"expected a head within {len(data)} bytes, got one of {nbytes}")
        self.opening = bytes(data[:begin])
        """Prefix and head, which the tag authenticates together with the payload."""
        self.payload: bytes | memoryview = memoryview(data)[begin:]
        """In a session: encrypted, and the tag, until `Opener.open` decrypts it."""
        self.head = _head(unpack(self.opening[_PREFIX.size :], MOST_HEAD))


def _head(value: Any) -> Head:
    if type(value) is not list or len(value) < 5:
        raise Damaged("expected a list of at least 5 fields as the head, got another value")
    kind, session, epoch, number, ack, *more = value
    known = _KINDS.get(kind) if type(kind) is int else None
    if known is None:
        raise Damaged(f"kind: expected the number of a known kind, got {str(kind)[:20]}")
    if type(session) is not bytes or len(session) != 16:
        raise Damaged("session: expected 16 bytes, got another value")
    for field in (epoch, number, ack):
        if type(field) is not int or not 0 <= field <= MOST_NUMBER:
            raise Damaged("epoch, number, ack: expected ints of 0 to 2^63-1, got another value")
    if len(more) != _MORE[known]:
        raise Damaged(
            f"{known.name}: expected a head of {5 + _MORE[known]} fields, got {len(value)}"
        )
    numbers = more
    if known is Kind.GRANT:
        if type(more[2]) is not list:
            raise Damaged("GRANT: expected a list of missing chunks, got another value")
        numbers = more[:2] + more[2]
    for field in numbers:
        if type(field) is not int or not -1 <= field <= MOST_NUMBER:
            raise Damaged(f"{known.name}: expected -1 to 2^63-1, got {str(field)[:20]!r}")
    return Head(known, session, epoch, number, ack, tuple(more))
