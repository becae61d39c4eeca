"""Endpoint: all sessions of one transport. It routes each frame to its session and runs the
handshake.

Two threads serve all sessions: one calls `tick` of each channel, one sends bulk chunks.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from sparkle_drv.cluster.channel.channel import Channel
from sparkle_drv.cluster.channel.credit import Credit, total
from sparkle_drv.cluster.few_lines import FewRecords
from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.transport.base import Message, MessageLane, MessageTransport, Stalled
from sparkle_drv.cluster.trust.keys import Keys
from sparkle_drv.cluster.wire.frame import Frame, Kind, hello
from sparkle_drv.cluster.wire.values import Damaged, WireField, checked, pack, unpack

log = logging.getLogger("sparkle_drv.cluster")
log.addFilter(FewRecords(log))  # strangers cause most of these lines

RTO_S = 0.25
"""Seconds without an acknowledgement after which an item is sent again."""
SILENCE_S = 3.5
"""Seconds of silence after which a peer is lost."""
_TICK_S = 0.005  # seconds that an acknowledgement waits for a frame that can carry it
_MOST_HELLO = 16 << 10  # the most bytes of a handshake message
_PENDING = 64  # handshakes that may be in progress at a time; one more drops the oldest
_STEPS = {
    "step": WireField(str, 1, 16),
    "body": WireField(dict, 0, 64),
}


class ClientHandshake(Protocol):
    """The client's half of a handshake (trust/handshake.py)."""

    def hello(self) -> dict[str, Any]:
        """Returns the first message of the handshake."""

    def prove(self, welcome: dict[str, Any]) -> tuple[dict[str, Any], Keys]:
        """Checks `welcome`, the second message of the handshake. Returns the third message and the
        keys. Raises Refused if `welcome` is wrong.
        """


class NodeHandshake(Protocol):
    """The node's half of a handshake, for all sessions."""

    def welcome(self, hello: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """Answers the first message of a handshake: returns the second message, and the state that
        `admit` needs. Raises Refused if `hello` is wrong.
        """

    def admit(self, pending: Any, proof: dict[str, Any]) -> Keys:
        """Returns the keys of the new session if `proof`, the third message, is right. Raises
        Refused otherwise.
        """


Accept = Callable[[Channel], None]
"""accept(channel): takes a new session, and sets its `deliver` and `lost`. Raises Refused if the
session must not begin."""


class Endpoint:
    """The sessions of one transport. Any thread may call any method."""

    def __init__(
        self, transport: MessageTransport, *, answerer: NodeHandshake | None = None,
        accept: Accept | None = None, credit: Credit | None = None, rto_s: float = RTO_S,
        silence_s: float = SILENCE_S,
    ) -> None:  # fmt: skip
        self.transport = transport
        self._answerer, self._accept = answerer, accept
        self.credit = credit or Credit(total())
        self._rto_s, self._silence_s = rto_s, silence_s
        self._lock, self._watching = threading.Lock(), threading.Lock()
        self._channels: dict[bytes, tuple[str, Channel]] = {}
        self._pending: OrderedDict[bytes, tuple[bytes, Any]] = OrderedDict()
        self._answers: dict[bytes, queue.SimpleQueue[dict[str, Any]]] = {}
        self._urgent = threading.Event()
        self._bulk: queue.SimpleQueue[tuple[Channel, int, int] | None] = queue.SimpleQueue()
        self._closed = False
        transport.start(self._received, self._seen)
        self._threads = [
            threading.Thread(target=loop, name=f"sparkle-{name}", daemon=True)
            for name, loop in (("clock", self._clock), ("bulk", self._carry))
        ]
        for thread in self._threads:
            thread.start()

    # Sessions

    def connect(self, node: str, caller: ClientHandshake, timeout_s: float = 5.0) -> Channel:
        """Opens a session with a node. Raises Refused with the node's reason, or if nobody answers.

        The caller must set `deliver` and `lost` of the channel before it posts anything.
        """
        end_s = time.monotonic() + timeout_s
        number = os.urandom(16)
        answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._answers[number] = answers
        try:
            welcome = self._ask(node, number, "hello", caller.hello(), answers, end_s)
            proof, keys = caller.prove(welcome)
            channel = self._begin(node, keys)
            try:
                while not channel.admitted.is_set():
                    if time.monotonic() >= end_s:
                        raise Refused(f"{node}: no answer to the proof within {timeout_s:g} s")
                    self._hello(node, number, "proof", proof)
                    channel.admitted.wait(self._rto_s)
                    with contextlib.suppress(queue.Empty):
                        _body_of(node, answers.get_nowait())
            except BaseException:  # ends the session, which gives its credit back
                channel.end("it did not begin", tell=False)
                raise
            if channel.ended:
                raise Refused(f"{node}: the session has ended: {channel.ended}")
            return channel
        finally:
            del self._answers[number]

    def _ask(
        self, node: str, number: bytes, step: str, body: dict[str, Any],
        answers: queue.SimpleQueue[dict[str, Any]], end_s: float,
    ) -> dict[str, Any]:  # fmt: skip
        while True:
            self._hello(node, number, step, body)
            with contextlib.suppress(queue.Empty):
                return _body_of(node, answers.get(timeout=self._rto_s))
            if time.monotonic() >= end_s:
                raise Refused(
                    f"{node}: nobody of that name answers; expected the name in its certificate, "
                    "and one version of sparkle_drv on both"
                )

    def _begin(self, peer: str, keys: Keys) -> Channel:
        credit = self.credit.admit(keys.peer)
        if credit is None:
            raise Refused("there is no room for another session")
        channel = Channel(
            keys, send=partial(self.transport.send, peer), credit=credit,
            urge=self._urge, bulk=self._carries, now=time.monotonic(), rto_s=self._rto_s,
        )  # fmt: skip
        with self._lock:
            self._channels[keys.session] = (peer, channel)
        self._urge()  # wakes the clock thread, which sleeps for a second while there is no session
        with self._watching:
            self.transport.watch(peer)
        return channel

    def close(self) -> None:
        """Ends every session and the transport; idempotent."""
        with self._lock:
            ending = [channel for _, channel in self._channels.values()]
        for channel in ending:
            channel.end("the other end was closed")
        self._closed = True
        self._urgent.set()
        self._bulk.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(5)
        self.transport.close()

    # Frames

    def _received(self, sender: str, data: Message) -> None:
        try:
            frame = Frame(data)
        except Damaged as error:
            log.warning("%s: a message from %s was dropped: %s", self.transport.name, sender, error)
            return
        if frame.head.kind is Kind.HELLO:
            self._greeted(sender, frame)
            return
        entry = self._channels.get(frame.head.session)
        if entry is None or entry[1].keys.epoch != frame.head.epoch:
            if self._answerer is not None and frame.head.kind is not Kind.END:
                self._hello(sender, frame.head.session, "unknown", {})
            return
        entry[1].received(frame)

    def _seen(self, name: str, alive: bool) -> None:
        if not alive:
            with self._lock:
                gone = [channel for peer, channel in self._channels.values() if peer == name]
            for channel in gone:
                channel.end(f"{name} is gone", tell=False)

    # Handshake

    def _hello(self, to: str, number: bytes, step: str, body: Mapping[str, Any]) -> bytes:
        payload = pack({"step": step, "body": body})
        frame = hello(number, payload)
        # a message that is not sent counts as lost, and the caller repeats it
        with contextlib.suppress(Stalled):
            self.transport.send(to, MessageLane.CONTROL, frame)
        return payload

    def _greeted(self, sender: str, frame: Frame) -> None:
        number = frame.head.session
        try:
            message = checked(unpack(frame.payload, _MOST_HELLO), _STEPS, "handshake")
        except Damaged as error:
            log.warning("%s: a handshake of %s was dropped: %s", self.transport.name, sender, error)
            return
        step, body = message["step"], message["body"]
        if step == "unknown":
            found = self._channels.get(number)
            if found is not None:
                found[1].hint()
        elif step in ("welcome", "refused"):
            answers = self._answers.get(number)
            if answers is not None:
                answers.put(message)
        elif self._answerer is not None:
            try:
                self._answer(self._answerer, sender, number, step, body)
            except Refused as error:
                log.info("%s: %s was refused: %s", self.transport.name, sender, error)
                self._hello(sender, number, "refused", {"refused": str(error)[:300]})

    def _answer(
        self, answerer: NodeHandshake, sender: str, number: bytes, step: str, body: dict[str, Any]
    ) -> None:
        """Handles the first or third message of a handshake. A client may send either of them
        several times.
        """
        known = self._pending.get(number)
        if step == "hello":
            if known is None:
                reply, pending = answerer.welcome(body)
                with self._lock:
                    self._pending[number] = (pack(reply), pending)
                    while len(self._pending) > _PENDING:
                        self._pending.popitem(last=False)
            else:
                reply = unpack(known[0], _MOST_HELLO)
            self._hello(sender, number, "welcome", reply)
        elif step == "proof" and known is not None and self._accept is not None:
            # If a Channel exists, the client repeats its proof: the answer to the first one was
            # lost.
            if isinstance(known[1], Channel):
                if known[1].ended:
                    raise Refused(known[1].ended)
                known[1].speak()
                return
            channel = self._begin(sender, answerer.admit(known[1], body))
            # Remembers the channel: if the proof arrives again, it must not begin a second session
            # with the same keys.
            with self._lock:
                self._pending[number] = (known[0], channel)
            try:
                self._accept(channel)
            except Refused as error:
                channel.end(str(error))
                return
            channel.speak()

    # Threads

    def _clock(self) -> None:
        next_s = time.monotonic()
        while not self._closed:
            self._urgent.wait(max(0.0, next_s - time.monotonic()))
            if self._urgent.is_set():
                time.sleep(_TICK_S)
                self._urgent.clear()
            now = time.monotonic()
            next_s = now + 1.0
            with self._lock:
                ticking = list(self._channels.items())
            for session, (_, channel) in ticking:
                if channel.ended:
                    with self._lock:
                        peer, _ = self._channels.pop(session)
                    threading.Thread(target=self._unwatch, args=(peer,), daemon=True).start()
                    continue
                next_s = min(next_s, channel.tick(now, self._silence_s))

    def _unwatch(self, peer: str) -> None:
        """Makes the transport stop watching the endpoint `peer` if no session with it is left. Runs
        in a thread of its own, since the transport's `unwatch` may block.
        """
        with self._watching:
            with self._lock:
                wanted = any(name == peer for name, _ in self._channels.values())
            if not wanted and not self._closed:
                self.transport.unwatch(peer)

    def _urge(self) -> None:
        if not self._urgent.is_set():
            self._urgent.set()

    def _carries(self, channel: Channel, transfer: int, index: int) -> None:
        self._bulk.put((channel, transfer, index))

    def _carry(self) -> None:
        while (wanted := self._bulk.get()) is not None:
            channel, transfer, index = wanted
            frame = channel.chunk_frame(transfer, index)
            if frame is not None:
                channel.give_bulk(frame)


def _body_of(node: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Returns the body of a node's answer. If the node refused the session, raises Refused with the
    reason that the answer gives.
    """
    body: dict[str, Any] = answer["body"]
    if answer["step"] == "refused":
        words = "".join(c for c in str(body.get("refused", ""))[:300] if c.isprintable())
        raise Refused(f"{node}: {words or 'the node refused the session, without a reason'}")
    return body
