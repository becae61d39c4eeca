"""The class Channel, one end of a session: it sends and handles the session's frames."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any

from sparkle_drv.cluster.channel.bulk import CHUNK, LATE_RTO, Receiving, Sending
from sparkle_drv.cluster.channel.credit import ClientCredit
from sparkle_drv.cluster.channel.stream import WINDOW, Incoming, Outgoing
from sparkle_drv.cluster.transport.base import Message, MessageLane, Stalled
from sparkle_drv.cluster.trust.keys import Keys
from sparkle_drv.cluster.wire.frame import MOST_NUMBER, Frame, Kind
from sparkle_drv.cluster.wire.values import Damaged, pack, unpack

log = logging.getLogger("sparkle_drv.cluster")

MOST_ITEM = 256 << 10
"""Bytes of one posted item at most: longer things are transfers."""
PING_S = 1.0  # an end that has sent nothing for so long sends a PING
_MOST_END = 4096  # the most bytes of an END frame's payload


class Channel:
    """One end of a session. Any thread may call any method.

    `deliver(item)` gets each item of the other end once, in order, one at a time. `lost(words)` is
    called once, when the session is over. The channel calls both callbacks without a lock held, and
    neither may block.
    """

    def __init__(
        self, keys: Keys, *, send: Callable[[MessageLane, Message], None],
        credit: ClientCredit, urge: Callable[[], None], bulk: Callable[[Channel, int, int], None],
        now: float, rto_s: float,
    ) -> None:  # fmt: skip
        self.keys = keys
        self.deliver: Callable[[Any], None] = lambda item: None
        self.lost: Callable[[str], None] = lambda words: None
        self.ended = ""
        """Why it is over, in words; "": it is not."""
        self.heard_at = self._said_at = now
        self.admitted = threading.Event()
        """Has a proven frame of the other end come?"""
        self._suspect_at = 0.0
        """When somebody said that the session is not known there; 0: nobody has since a frame."""
        self._send, self._credit, self._urge, self._bulk = send, credit, urge, bulk
        self._rto_s = self._backoff_s = rto_s
        self._lock = threading.Lock()
        self._out, self._in = Outgoing(), Incoming()
        self._ack_due = False
        self._owed = 0  # bytes received since this end last sent an acknowledgement
        self._later: deque[bytes] = deque()
        self._ready: deque[Any] = deque()
        self._delivering = False
        self._sending: dict[int, Sending] = {}
        self._receiving: dict[int, Receiving] = {}

    # Items

    def post(self, item: Any, key: Hashable = None) -> bool:
        """Queues an item of plain data. `flush` or the next tick sends the item.

        The item replaces an unsent item of the same `key`. Returns True if no other item was unsent
        or unacknowledged: the caller may then flush at once. Raises ValueError for an item of more
        than MOST_ITEM bytes.
        """
        return self.post_packed(pack(item), key)

    def post_packed(self, data: bytes, key: Hashable = None, follows: Hashable = None) -> bool:
        """Queues an item that `pack` made, as `post` does. If the last queued item is unsent and
        was posted with the same `follows`, the new item takes its place.
        """
        if len(data) > MOST_ITEM:
            raise ValueError(f"item: expected at most {MOST_ITEM} bytes, got {len(data)}")
        with self._lock:
            self._take_later()
            idle, none_waits = self._out.idle, not self._out.waiting
            self._out.post(data, key, follows)
        # If the stream was idle, the thread of the ticks is not woken: the caller calls `flush`, or
        # the next tick sends the item.
        if none_waits and not idle:
            self._urge()
        return idle

    def post_later(self, item: Any) -> None:
        """Queues an item without taking a lock. A finalizer needs this, since its thread may hold
        any lock. The item goes out with the next frame of items or the next tick.
        """
        self._later.append(pack(item))

    def _take_later(self) -> None:
        while self._later:
            self._out.post(self._later.popleft())

    def flush(self, patience_s: float = -1) -> None:
        """Sends the queued items, as far as the window allows.

        Gives up if the lock is not free within `patience_s` seconds. A finalizer passes a limit,
        since its own thread may hold the lock.
        """
        while not self.ended and self._lock.acquire(timeout=patience_s):
            try:
                self._take_later()
                taken = self._out.take(time.monotonic())
                if taken is None:
                    return
                frame, more = self._frame(Kind.DATA, (taken[0],), taken[1]), self._out.waiting
            finally:
                self._lock.release()
            self._give(MessageLane.CONTROL, frame)
            if not more:
                return

    @property
    def idle(self) -> bool:
        """Whether the other end has acknowledged all posted items."""
        with self._lock:
            return self._out.idle

    @property
    def backlog(self) -> int:
        """Bytes of posted items that the other end has not acknowledged."""
        with self._lock:
            return self._out.nbytes

    # Bulk

    def send_bulk(
        self, transfer: int, data: memoryview, done: Callable[[], None] = lambda: None
    ) -> None:
        """Sends bytes that the other end expects under the number `transfer`.

        The bytes are not copied: they must not change until `done()` is called. Any thread calls
        `done()` once all bytes have arrived or the session is over. The caller chooses the number,
        unique for this direction.
        """
        with self._lock:
            if not self.ended:
                self._sending[transfer] = Sending(data, done, time.monotonic())
                return
        done()

    def expect(self, transfer: int, into: memoryview, done: Callable[[], None]) -> None:
        """Accepts the other end's transfer of this number. Once all bytes have arrived, some thread
        calls `done()`, also if `into` has no bytes.
        """
        if not into.nbytes:
            done()
            return
        with self._lock:
            if self.ended:  # nothing comes any more, and `end` has forgotten all transfers
                return
            self._receiving[transfer] = Receiving(into, done, self.heard_at)
        self._extend(transfer)

    def missing(self, transfer: int) -> int:
        """Returns how many chunks of an expected transfer have not arrived, 0 for a transfer that
        is not expected.
        """
        with self._lock:
            found = self._receiving.get(transfer)
            return 0 if found is None else found.left

    def drop(self, transfer: int) -> None:
        """Stops expecting the transfer and gives its credit back to the endpoint."""
        with self._lock:
            found = self._receiving.pop(transfer, None)
        if found is not None:
            found.release(self._credit)

    def unsent(self) -> int:
        """Returns how many transfers that this end sends have not arrived in full."""
        with self._lock:
            return len(self._sending)

    def chunk_frame(self, transfer: int, index: int) -> bytearray | None:
        """Returns the frame of a chunk for the endpoint's bulk thread, or None when the transfer is
        over.
        """
        with self._lock:
            sending = self._sending.get(transfer)
            if sending is None or self.ended:
                return None
            return self._frame(Kind.CHUNK, (transfer, index), sending.chunk(index))

    def give_bulk(self, frame: bytearray) -> None:
        """Sends the frame of a chunk. May wait for room in the link."""
        self._give(MessageLane.BULK, frame)

    def _extend(self, transfer: int, overdue: bool = False) -> None:
        """Grants the chunks of a transfer that the credit allows. If this end no longer expects the
        transfer, tells the sender that the transfer is complete.
        """
        with self._lock:
            receiving = self._receiving.get(transfer)
            if receiving is None:
                upto, missing = -1, list[int]()
            else:
                fresh = receiving.extend(
                    self._credit, lambda: self._resume(transfer), time.monotonic()
                )
                if not fresh and not overdue:
                    return
                upto, missing = receiving.grant(overdue)
            frame = self._frame(Kind.GRANT, (transfer, upto, missing), b"")
        self._give(MessageLane.CONTROL, frame)

    def _resume(self, transfer: int) -> None:
        with self._lock:
            found = self._receiving.get(transfer)
            if found is None:
                return
            found.resume()
        self._extend(transfer)

    # Receiving

    def received(self, frame: Frame) -> None:
        """Handles a frame of this session. Logs and drops a forged or damaged frame, and drops a
        repeated one.
        """
        try:
            if not self.keys.incoming.open(frame):
                return
            items = self._items(frame) if frame.head.kind is Kind.DATA else []
        except Damaged as error:
            log.warning("%s: a frame was dropped: %s", self.keys.peer, error)
            return
        head = frame.head
        if self.ended:
            return
        with self._lock:
            self.heard_at, self._suspect_at = time.monotonic(), 0.0
            self._out.acknowledged(min(head.ack, MOST_NUMBER), self.heard_at)
            self._backoff_s = self._rto_s
            if head.kind is Kind.DATA:
                self._ready += self._in.take(head.more[0], items, len(frame.payload))
            if head.kind is Kind.DATA or head.kind is Kind.PING:
                self._ack_due = True
                self._owed += len(frame.payload)
            hurry = head.kind is Kind.PING or self._owed >= WINDOW // 4
            more = self._out.waiting or self._later
        if not self.admitted.is_set():
            self.admitted.set()
        if hurry:  # otherwise an answer or the next tick carries the acknowledgement
            self._urge()
        if head.kind is Kind.DATA:
            self._deliver()
        elif head.kind is Kind.CHUNK:
            self._chunk(head.more[0], head.more[1], frame.payload)
        elif head.kind is Kind.GRANT:
            self._granted(*head.more)
        elif head.kind is Kind.END:
            self.end(bytes(frame.payload[:_MOST_END]).decode("utf-8", "replace"), tell=False)
        if more:  # the acknowledgement made room in the window for queued items
            self.flush()

    def _items(self, frame: Frame) -> list[Any]:
        items = unpack(frame.payload, len(frame.payload))
        if type(items) is not list:
            raise Damaged("payload: expected a list of items, got another value")
        return items

    def _deliver(self) -> None:
        with self._lock:
            if self._delivering:
                return
            self._delivering = True
        while True:
            with self._lock:
                if not self._ready or self.ended:
                    self._delivering = False
                    return
                item = self._ready.popleft()
            try:
                self.deliver(item)
            except Exception as error:  # a bug in `deliver` must not end the transport's thread
                log.exception("%s: a message failed", self.keys.peer)
                self.end(f"a message failed here: {type(error).__name__}")

    def _chunk(self, transfer: int, index: int, payload: bytes | memoryview) -> None:
        done, back = None, None
        with self._lock:
            receiving = self._receiving.get(transfer)
            if receiving is not None and receiving.put(index, payload, self.heard_at):
                back = self._credit.settle if receiving.settle() else self._credit.give
            if receiving is not None and receiving.complete:
                del self._receiving[transfer]
                done = receiving.done
        if back is not None:
            back(CHUNK)
        if done is not None:
            done()
        if receiving is None or back is not None:
            self._extend(transfer, overdue=receiving is None or done is not None)

    def _granted(self, transfer: int, upto: int, missing: list[int]) -> None:
        with self._lock:
            sending = self._sending.get(transfer)
            if sending is None:
                return
            if upto < 0:
                del self._sending[transfer]
            wanted = [] if upto < 0 else sending.granted(upto, missing, self.heard_at)
        if upto < 0:
            sending.done()
        for index in wanted:
            self._bulk(self, transfer, index)

    # Time

    def tick(self, now: float, silence_s: float) -> float:
        """Sends overdue data again, acknowledges, and pings. Returns the time of the next call."""
        if self.ended:
            return now + silence_s
        self.flush()
        frames, extends, again, lapsed = [], [], [], 0
        with self._lock:
            silent = now - self.heard_at
            if self._out.unacknowledged and now - self._out.sent_at >= self._backoff_s:
                self._backoff_s = min(2 * self._backoff_s, max(self._rto_s, PING_S))
                taken = self._out.again(now)
                if taken is not None:
                    frames.append(self._frame(Kind.DATA, (taken[0],), taken[1]))
            for transfer, found in self._receiving.items():
                lapsed += found.lapse(now, LATE_RTO * self._rto_s)
                if now - found.heard_at >= self._rto_s and found.asks:
                    found.heard_at = now
                    extends.append(transfer)
            for transfer, sending in self._sending.items():
                if now - sending.heard_at >= 2 * self._rto_s:
                    again += [(transfer, index) for index in sending.overdue(now)]
            asks = bool(self._suspect_at) or now - self._said_at >= PING_S
            if asks or (self._ack_due and not frames):
                frames.append(self._frame(Kind.PING if asks else Kind.ACK, (), b""))
            self._said_at = now if frames else self._said_at
            suspicious = now - max(self.heard_at, self._suspect_at) if self._suspect_at else 0.0
        self._credit.lapse(lapsed)
        if suspicious >= silence_s / 4 or silent >= silence_s:
            known = f"no word for {silent:.1f} s"
            if suspicious:
                known = "it does not know this session: it was started anew, or heard nothing of us"
            self.end(known, tell=False)
            return now + silence_s
        for frame in frames:
            self._give(MessageLane.CONTROL, frame)
        for transfer in extends:
            self._extend(transfer, overdue=True)
        for transfer, index in again:
            self._bulk(self, transfer, index)
        return now + self._rto_s / 2

    def hint(self) -> None:
        """Handles a message without tag, which says that the other end does not know this session.
        Since anybody may have sent the message, the next tick pings to find out.
        """
        self._suspect_at = self._suspect_at or time.monotonic()
        self._urge()

    def speak(self) -> None:
        """Makes the next tick send an acknowledgement."""
        self._ack_due = True
        self._urge()

    def end(self, words: str, *, tell: bool = True) -> None:
        """Ends the session for the reason `words`; idempotent. With `tell`, the other end gets an
        END frame with the reason.
        """
        frame = None
        with self._lock:
            if self.ended:
                return
            if tell:
                frame = self._frame(Kind.END, (), words.encode()[:_MOST_END])
            self.ended = words or "closed"
            received, self._receiving = self._receiving, {}
            sent, self._sending = self._sending, {}
        for receiving in received.values():
            receiving.release(self._credit)
        self._credit.dismiss()
        for sending in sent.values():
            sending.done()
        if frame is not None:
            self._give(MessageLane.CONTROL, frame)
        self.lost(self.ended)
        self.admitted.set()
        self._urge()

    def _frame(self, kind: Kind, more: tuple[Any, ...], payload: bytes | memoryview) -> bytearray:
        self._ack_due, self._owed = False, 0
        return self.keys.outgoing.frame(kind, self._in.expected, more, payload)

    def _give(self, lane: MessageLane, frame: bytearray) -> None:
        try:
            self._send(lane, frame)
        except Stalled as error:
            self.end(str(error), tell=False)
