"""ClientSession: the client's requests to one device of a node, and the node's replies. The node
also sends reports that nobody asked for ("news"), which wake waiting threads.

Finalizers use `post_later`, since a finalizer may run while its thread holds a lock.
"""

from __future__ import annotations

import errno
import itertools
import queue
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

from sparkle_drv.cluster.channel.channel import Channel
from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.remote.line import Read, RemoteTimeline
from sparkle_drv.cluster.wire.requests import MOST_RUNS, parse_item
from sparkle_drv.cluster.wire.values import Damaged, pack
from sparkle_drv.errors import (
    DeviceLost,
    DeviceNotFound,
    ImageError,
    OutOfDeviceMemory,
    SparkleError,
)
from sparkle_drv.plugin import Failed

ANSWER_S = 60.0
"""Seconds to wait for a reply. A node may have to compile a kernel first."""
CLOSED_S = 5.0
"""Seconds that closed queues have to end at the node before another one is opened."""
SILENT_S = 0.25
"""Seconds without news after which a waiting thread asks."""
_PATIENCE_S = 0.05  # seconds that a waiting thread tries to get the lock for a flush

_KINDS: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        ValueError, TypeError, ImageError, OutOfDeviceMemory, DeviceLost, DeviceNotFound,
        NotImplementedError, Refused, SparkleError,
    )
}  # fmt: skip

# _U64 is msgpack's type byte of an unsigned 64-bit number. _VALUE packs this byte and the number.
_VALUE, _U64 = struct.Struct(">BQ"), 0xCF
_Reply = dict[str, Any] | None


def head(line: RemoteTimeline, do: str, **fields: Any) -> bytes:
    """Packs a submission without its last field, the timeline value. `ClientSession.run` appends
    the value.
    """
    return pack({"do": do, "queue": line.number, **fields, "value": 0})[:-1]


class ClientSession:
    """The client's end of the session of one open device. Any thread may call any method."""

    def __init__(self, channel: Channel, uri: str) -> None:
        self.uri = uri
        """The device's name in errors."""
        self.channel = channel
        self.words = ""
        """Why the session or the device is gone; "" if it is not."""
        self.on_loss: Callable[[str], None] = lambda words: None
        self.on_renew: Callable[[dict[str, Any]], None] = lambda request: None
        """Called in the transport's thread when the node asks for a new certificate."""
        self._numbers = itertools.count(1)
        self._answers: dict[int, Callable[[_Reply], None]] = {}
        # The lock of a Condition is re-entrant by default. So a finalizer may wait here even while
        # its own thread holds the lock.
        self._changed = threading.Condition()
        self._news = 0
        self._lines: dict[int, RemoteTimeline] = {}
        self._closing: dict[int, int] = {}
        self._reads: dict[int, Read] = {}
        channel.deliver, channel.lost = self._deliver, self._lost
        if channel.ended:
            self._lost(channel.ended)

    # Requests

    def check(self) -> None:
        """Raises plugin.Failed if the session or the device is lost."""
        if self.words:
            raise Failed(errno.ENODEV, self.words)

    def number(self) -> int:
        """Returns a new number for a queue, a transfer, or anything else that the client
        numbers.
        """
        return next(self._numbers)

    def post(self, do: str, **fields: Any) -> None:
        """Queues a request without waiting for a reply."""
        if self.channel.post({"do": do, **fields}):
            # The channel sends its queued items whenever an acknowledgement arrives. Now none will
            # arrive, because the other end has acknowledged all frames. So `flush` sends the item.
            self.channel.flush()

    def give(self, line: RemoteTimeline, do: str, **fields: Any) -> int:
        """Sends a submission and returns its timeline value."""
        return self.run(line, head(line, do, **fields))

    def run(self, line: RemoteTimeline, packed: bytes, again: bool = False) -> int:
        """Sends the submission `packed`, which `head` made, and returns its timeline value.

        With `again`, `packed` is a "run" request. It may replace an equal request that was queued
        just before it and is not sent yet. The node launches once for each value up to the
        request's value. So the launches of replaced requests are made, too.
        """
        value = line.submitted + 1
        follows = (packed, value // MOST_RUNS) if again else None
        idle = self.channel.post_packed(packed + _VALUE.pack(_U64, value), None, follows)
        # No call may come between posting the item and this assignment, because Python handles
        # Ctrl-C at calls. Ctrl-C there would leave the item posted and its value not counted.
        line.submitted = value
        if idle:
            self.channel.flush()
        return value

    def post_later(self, do: str, **fields: Any) -> None:
        """Queues a request as `post` does, but takes no lock. Finalizers use it."""
        self.channel.post_later({"do": do, **fields})

    def ask(self, do: str, timeout_s: float = ANSWER_S, **fields: Any) -> dict[str, Any]:
        """Sends a request and returns its reply. Raises the node's error. Raises DeviceLost if the
        session is lost or no reply arrives within `timeout_s`.
        """
        if self.words:
            raise DeviceLost(f"{self.uri}: {do}: the session or device is lost: {self.words}")
        answers: queue.SimpleQueue[_Reply] = queue.SimpleQueue()
        number = self.number()
        self._answers[number] = answers.put
        try:
            self.channel.post({"do": do, "re": number, **fields})
            self.channel.flush()
            while not self.channel.ended:
                try:
                    reply = answers.get(timeout=timeout_s)
                except queue.Empty:
                    raise DeviceLost(
                        f"{self.uri}: {do}: expected an answer within {timeout_s:g} s, got none"
                    ) from None
                if reply is not None:
                    return self._ok(reply)
            raise DeviceLost(f"{self.uri}: {do}: the session has ended: {self.channel.ended}")
        finally:
            self._answers.pop(number, None)

    def ask_later(self, do: str, failed: Callable[[], None], **fields: Any) -> None:
        """Sends a request without waiting; calls `failed()` if the node refuses it."""
        number = self.number()
        self._answers[number] = lambda reply: failed() if reply and "error" in reply else None
        self.channel.post({"do": do, "re": number, **fields})

    def _ok(self, reply: dict[str, Any]) -> dict[str, Any]:
        if "error" not in reply:
            ok: dict[str, Any] = reply.get("ok", {})
            return ok
        kind = _KINDS.get(reply["error"], SparkleError)
        words = "".join(c if c.isprintable() or c == "\n" else "?" for c in reply.get("words", ""))
        raise kind(self.said(words or "the node refused a request, without a reason"))

    def said(self, words: str) -> str:
        """Returns an error's text from the node with the client's URI of the device in front.

        If the text already begins with the device's URI, that one is replaced.
        """
        there = self.uri.partition("/")[2]
        words = words.removeprefix(f"{self.uri}: ").removeprefix(f"{there}: ")
        return f"{self.uri}: {words}"

    # Queues

    def open_line(self, timing: bool, wait: bool = True) -> RemoteTimeline:
        """Opens a queue at the node. Raises SparkleError if the node opens none."""
        line = RemoteTimeline(self.number(), timing, self._changed)
        if wait:
            self.settle()  # the node's quota counts a closed queue until all of its work has ended
            self.ask("queue", queue=line.number, timing=timing)
        else:
            self.post("queue", queue=line.number, timing=timing)
        self._lines[line.number] = line
        return line

    def close_line(self, line: RemoteTimeline) -> None:
        """Closes a queue whose work has ended; idempotent."""
        if self._lines.pop(line.number, None) is None:
            return
        number = self.number()
        self._closing[number] = line.number

        def closed(reply: _Reply) -> None:
            with self._changed:
                self._closing.pop(number, None)
                self._tell()

        self._answers[number] = closed
        self.post_later("close_queue", queue=line.number, re=number)

    def settle(self) -> None:
        """Waits until the node has closed all queues that this client closed, at most CLOSED_S."""
        if self._closing:
            self.channel.flush()
            with self._changed:
                self._changed.wait_for(lambda: not self._closing or self.words, CLOSED_S)

    def has(self, number: int) -> bool:
        """Returns whether the queue of that number is open."""
        return number in self._lines

    def read(self, line: RemoteTimeline, address: int, into: memoryview) -> int:
        """Submits a download into `into` and returns the value that the queue reaches after it."""
        read = Read(line, line.submitted + 1, into)
        transfer = self.number()
        line.reads(read)
        self._reads[transfer] = read
        return self.give(line, "read", address=address, nbytes=into.nbytes, transfer=transfer)

    # The following two methods implement the protocol plugin.News.

    def mark(self) -> int:
        """Returns how many reports of the node have arrived."""
        return self._news

    def wait(self, own: Any, mark: int, seconds: float) -> None:
        """Waits until more reports have arrived than `mark`, at most `seconds`. If the node has
        sent no report on the queue `own` for SILENT_S, asks for one.
        """
        self.channel.flush(_PATIENCE_S)
        with self._changed:
            if self._news == mark and not self.channel.ended:
                self._changed.wait(min(seconds, SILENT_S))
            if self._news != mark:
                return
        now = time.monotonic()
        if now - own.heard_s >= SILENT_S and not self.channel.ended:
            own.heard_s = now
            self.post_later("ask", queue=own.number)
            self.channel.flush(_PATIENCE_S)

    # The transport's thread calls the following methods when messages arrive.

    def _deliver(self, item: Any) -> None:
        name, fields = parse_item(item)
        if not name:
            answer = self._answers.pop(fields["re"], None)
            if answer is not None:
                answer(fields)
            return
        if name == "renew":
            self.on_renew(fields["request"])
            return
        with self._changed:
            if name == "timeline":
                self._timeline(**fields)
            elif name == "lost":
                self._gone(fields["words"] or "the device is lost")
            else:
                self._bytes(name, fields)
            self._tell()

    def _timeline(self, queue: int, reached: int, faults: list[Any], times: list[Any]) -> None:
        line = self._lines.get(queue)
        failed = line.tell(reached, faults, times) if line is not None else []
        if failed:
            self._reads = {n: read for n, read in self._reads.items() if read not in failed}

    def _bytes(self, name: str, fields: dict[str, Any]) -> None:
        read = self._reads.pop(fields["transfer"], None)
        if read is None:
            return  # the download has failed already
        if name == "ready":
            self.channel.expect(fields["transfer"], read.into, lambda: self._arrived(read))
            return
        if len(fields["data"]) != read.into.nbytes:
            raise Damaged(
                f"news bytes: expected {read.into.nbytes} bytes of data, got {len(fields['data'])}"
            )
        read.into[:] = fields["data"]
        read.line.arrived(read)

    def _arrived(self, read: Read) -> None:
        read.line.arrived(read)
        with self._changed:
            self._tell()

    def _tell(self) -> None:
        self._news += 1
        self._changed.notify_all()

    def _gone(self, words: str) -> None:
        self.words = self.words or words
        self.on_loss(self.words)

    def _lost(self, words: str) -> None:
        with self._changed:
            self._gone(words)
            self._reads.clear()
            self._tell()
        for answer in list(self._answers.values()):
            answer(None)
