"""Encryption of a session's frames by AES-256-GCM (NIST SP 800-38D): one key for each direction.

A frame's tag authenticates its head and its payload, thus also its session, kind, place in a
transfer and length. The other direction and other sessions have other keys.
"""

from __future__ import annotations

import os
import struct
import threading
from typing import Any

from sparkle_drv.cluster.wire.frame import Frame, Head, Kind, opening
from sparkle_drv.cluster.wire.values import Damaged
from sparkle_drv.errors import DeviceLost

TAG_NBYTES = 16
SPAN = 4096
"""Frames older than this many frames of the same key and lane count as repeated. Lost frames are
sent again with new numbers, and a sender holds back at most 1024 control messages."""
_NONCE = struct.Struct(">IQ")


def _nonce(kind: Kind, number: int) -> bytes:
    """Returns the nonce of a frame: chunks have a number space of their own. Raises struct.error
    for a number of more than 64 bits, so that no nonce can come again.
    """
    return _NONCE.pack(kind is Kind.CHUNK, number)


class Sealer:
    """Encrypts the frames of one direction of one session. Any thread may call it.

    The key stays in this object, which counts its frames: no caller chooses a nonce. Each session
    has fresh keys. In a forked child, which has a copy of the counts, `frame` raises DeviceLost.
    """

    def __init__(self, key: bytes, session: bytes, epoch: int) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher, self._session, self._epoch = AESGCM(key), session, epoch
        self._lock = threading.Lock()
        self._numbers = {True: 0, False: 0}
        self._pid = os.getpid()

    def frame(
        self, kind: Kind, ack: int, more: tuple[Any, ...], payload: bytes | memoryview
    ) -> bytearray:
        """Returns a frame with the next number of its kind."""
        if os.getpid() != self._pid:
            raise DeviceLost("session: expected the process that opened it, got a fork of it")
        with self._lock:
            number = self._numbers[kind is Kind.CHUNK] + 1
            self._numbers[kind is Kind.CHUNK] = number
        begins = opening(Head(kind, self._session, self._epoch, number, ack, more))
        frame = bytearray(len(begins) + len(payload) + TAG_NBYTES)
        frame[: len(begins)] = begins
        with memoryview(frame)[len(begins) :] as sealed:
            self._cipher.encrypt_into(_nonce(kind, number), payload, begins, sealed)
        return frame


class Opener:
    """Verifies and decrypts the frames of one direction of one session. Any thread may call it."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM(key)
        self._lock = threading.Lock()
        self._opened = {True: _Numbers(), False: _Numbers()}

    def open(self, frame: Frame) -> bool:
        """Decrypts the payload. Returns False for a frame that was opened before, which must be
        ignored. Raises Damaged for a frame that the other end of this session did not make, or
        that was changed on the way.
        """
        head, opened = frame.head, self._opened[frame.head.kind is Kind.CHUNK]
        with self._lock:
            if not opened.fresh(head.number):
                return False
        try:
            payload: bytes = self._cipher.decrypt(
                _nonce(head.kind, head.number), frame.payload, frame.opening
            )
        except Exception:  # InvalidTag, or another exception for a short payload
            raise Damaged("expected a tag that fits, got a forged or damaged frame") from None
        with self._lock:
            if not opened.fresh(head.number):
                return False
            opened.add(head.number)
        frame.payload = payload
        return True


class _Numbers:
    """The numbers of opened frames: the last one, and a bit for each of the SPAN before it."""

    def __init__(self) -> None:
        self._last, self._bits = 0, 1

    def fresh(self, number: int) -> bool:
        age = self._last - number
        return age < 0 or (age < SPAN and not self._bits >> age & 1)

    def add(self, number: int) -> None:
        ahead = number - self._last
        if ahead <= 0:
            self._bits |= 1 << -ahead
            return
        self._bits = (self._bits << min(ahead, SPAN) | 1) & ((1 << SPAN) - 1)
        self._last = number
