"""Frames: "SPK1", the head's size, the head, its MAC, the payload.

The head is a msgpack array: kind, session, epoch, number, ack, then fields that the kind adds. The
MAC is HMAC-SHA-256 (RFC 2104), cut to 16 bytes, over head and payload. The MAC of a chunk, whose
payload is bulk, covers the head alone. A sealed session encrypts payloads by AES-256-GCM, with the
head as associated data.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import struct
from typing import Any, NamedTuple

from sparkle_drv.cluster.wire.values import Damaged, pack, unpack

MAGIC = b"SPK1"
MAC_NBYTES = 16
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
    """Counts the frames of one end: it makes a sealed payload's nonce."""
    """Counts the frames of one end; it is the nonce of a sealed payload."""
    ack: int
    more: tuple[Any, ...] = ()


class Seal:
    """Encrypts and decrypts the payloads of one direction by AES-256-GCM."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM(hashlib.sha256(b"seal" + key).digest())

    def close(self, number: int, head: bytes, payload: bytes) -> bytes:
        sealed: bytes = self._cipher.encrypt(struct.pack("<4xQ", number), payload, head)
        return sealed

    def open(self, number: int, head: bytes, payload: bytes) -> bytes:
        try:
            opened: bytes = self._cipher.decrypt(struct.pack("<4xQ", number), payload, head)
        except Exception:  # InvalidTag, or another exception for a short payload
            raise Damaged("expected a payload encrypted by this session, got another") from None
        return opened


def encode(head: Head, payload: bytes | memoryview, key: bytes, seal: Seal | None) -> bytes:
    """Returns a frame as bytes. `key` is b"" for a HELLO, which has no MAC."""
    raw = pack([int(head.kind), *head[1:5], *head.more])
    if seal is not None and len(payload):
        payload = seal.close(head.number, raw, bytes(payload))
    prefix = _PREFIX.pack(MAGIC, len(raw))
    mac = _mac(head.kind, raw, payload, key) if key else bytes(MAC_NBYTES)
    return b"".join((prefix, raw, mac, payload))


def _mac(kind: Kind, raw: bytes, payload: bytes | memoryview, key: bytes) -> bytes:
    covered = raw if kind is Kind.CHUNK else raw + bytes(payload)
    return hmac.digest(key, covered, "sha256")[:MAC_NBYTES]


class Frame:
    """A received frame. `prove` must verify its head before use."""

    __slots__ = ("_mac", "_raw", "head", "payload")

    def __init__(self, data: bytes) -> None:
        """Parses a frame. Raises Damaged if the bytes are not a frame."""
        if len(data) < _PREFIX.size + MAC_NBYTES:
            raise Damaged(
                f"frame: expected at least {_PREFIX.size + MAC_NBYTES} bytes, got {len(data)}"
            )
        magic, nbytes = _PREFIX.unpack_from(data)
        if magic != MAGIC:
            raise Damaged(f"expected a frame that begins with {MAGIC!r}, got {magic!r}")
        begin = _PREFIX.size + nbytes + MAC_NBYTES
        if nbytes > MOST_HEAD or begin > len(data):
            raise Damaged(f"expected a head within {len(data)} bytes, got one of {nbytes}")
        self._raw = data[_PREFIX.size : _PREFIX.size + nbytes]
        self._mac = data[_PREFIX.size + nbytes : begin]
        self.payload: bytes | memoryview = memoryview(data)[begin:]
        self.head = _head(unpack(self._raw, MOST_HEAD))

    def prove(self, key: bytes, seal: Seal | None) -> None:
        """Verifies that the sender has the key, and decrypts a sealed payload. Raises Damaged for a
        wrong MAC, or for a payload that cannot be decrypted.
        """
        if not hmac.compare_digest(self._mac, _mac(self.head.kind, self._raw, self.payload, key)):
            raise Damaged("expected a MAC that fits, got a forged or damaged frame")
        if seal is not None and len(self.payload):
            self.payload = seal.open(self.head.number, self._raw, bytes(self.payload))


def _head(value: Any) -> Head:
    if type(value) is not list or len(value) < 5:
        raise Damaged("expected a list of at least 5 fields as the head, got another value")
    kind, session, epoch, number, ack, *more = value
    known = _KINDS.get(kind) if type(kind) is int else None
    if known is None:
        raise Damaged(f"kind: expected the number of a known kind, got {str(kind)[:20]}")
    if type(session) is not bytes or len(session) != 16:
        raise Damaged("session: expected 16 bytes, got another value")
    for given in (epoch, number, ack):
        if type(given) is not int or not 0 <= given <= MOST_NUMBER:
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
    for given in numbers:
        if type(given) is not int or not -1 <= given <= MOST_NUMBER:
            raise Damaged(f"{known.name}: expected -1 to 2^63-1, got {str(given)[:20]!r}")
    return Head(known, session, epoch, number, ack, tuple(more))
