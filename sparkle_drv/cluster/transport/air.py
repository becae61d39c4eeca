"""A transport inside one process. With a seed it loses, repeats, reorders and delays messages.

Each link (sender, receiver, lane) has its own random generator. The fate of the n-th message of a
link thus depends on the seed alone, not on how threads interleave. Without a seed no message is
lost and each lane keeps its order. One thread delivers all messages, control before bulk.

A test causes the failures of real machines: `cut` pulls a cable, `kill` ends a process, `stop`
suspends a process and `go` resumes it. Threads cannot be suspended, so messages that a stopped
endpoint sends are kept until `go`.
"""

from __future__ import annotations

import heapq
import itertools
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.transport.base import (
    Message,
    MessageLane,
    MessageTransport,
    Receive,
    Seen,
    check_message,
    check_name,
)

HELD_BACK_S = 0.003
"""Seconds that a reordered message is late at most."""
TOGETHER = 16
"""Bulk messages that are delivered before control is checked again."""

Action = Callable[[], None]


class Air:
    """The network that connects the endpoints of one process."""

    def __init__(
        self,
        seed: int | None = None,
        lose: float = 0.0,
        repeat: float = 0.0,
        reorder: float = 0.0,
        delay_s: tuple[float, float] = (0.0, 0.0),
        lease_s: float = 0.2,
    ) -> None:
        if seed is None and (lose or repeat or reorder or any(delay_s)):
            raise ValueError("expected a seed, since messages are lost or delayed, got None")
        self.seed, self.lose, self.repeat, self.reorder = seed, lose, repeat, reorder
        self.delay_s, self.lease_s = delay_s, lease_s
        self._lock = threading.Condition()
        self._ends: dict[str, _End] = {}
        self._links: dict[tuple[str, str, MessageLane], _LossyLink] = {}
        self._later: list[tuple[float, int, MessageLane, Action]] = []
        self._ready: dict[MessageLane, deque[Action]] = {lane: deque() for lane in MessageLane}
        self._count = itertools.count()
        self._thread: threading.Thread | None = None
        self._asleep = False

    def endpoint(self, name: str) -> MessageTransport:
        """Returns a new endpoint. Other endpoints see it once it is started."""
        return _End(self, check_name(name))

    def cut(self, name: str) -> None:
        """Disconnects an endpoint. No message to or from it passes. After the lease, the endpoint
        and the others learn that the other side is gone.
        """
        self._fail(name, cut=True)

    def heal(self, name: str) -> None:
        """Connects a disconnected endpoint again."""
        self._mend(name, cut=False)

    def stop(self, name: str) -> None:
        """Suspends an endpoint. No message to or from it passes. After the lease, the others learn
        that the endpoint is gone.
        """
        self._fail(name, stopped=True)

    def go(self, name: str) -> None:
        """Resumes a suspended endpoint. The messages that it sent meanwhile are delivered.

        Messages that others sent to it meanwhile are delivered only if the lease has not passed.
        """
        self._mend(name, stopped=False)

    def kill(self, name: str) -> None:
        """Ends an endpoint as if its process died. The others learn it at once."""
        with self._lock:
            self._gone(self._ends[name])

    def _fail(self, name: str, **how: bool) -> None:
        with self._lock:
            end = self._ends[name]
            vars(end).update(how)
            end.failures += 1
            due = time.monotonic() + self.lease_s
            self._put(due, MessageLane.CONTROL, partial(self._expire, end, end.failures))

    def _mend(self, name: str, **how: bool) -> None:
        with self._lock:
            end = self._ends[name]
            vars(end).update(how)
            if end.cut or end.stopped:
                return
            end.failures += 1
            end.lost = False
            kept, end.kept = end.kept, []
            for action in kept:
                self._put(0.0, MessageLane.CONTROL, action)
            self._look()

    def _expire(self, end: _End, failure: int) -> None:
        with self._lock:
            if end.failures == failure and (end.cut or end.stopped):
                end.lost = True
                end.kept = [action for action in end.kept if action.func != self._arrive]
                self._look()

    def _gone(self, end: _End) -> None:
        if self._ends.get(end.name) is end:
            del self._ends[end.name]
        end.gone = True
        self._look()
        self._lock.notify()

    def _look(self) -> None:
        """Tells each endpoint which watched endpoints have appeared or gone. The caller holds the
        lock.
        """
        for end in self._ends.values():
            for name, told in end.watched.items():
                other = self._ends.get(name)
                alive = other is not None and not other.lost and not end.lost
                if alive is not told:
                    end.watched[name] = alive
                    self._put(0.0, MessageLane.CONTROL, partial(self._tell, end, name, alive))

    def _send(self, source: _End, to: str, lane: MessageLane, message: Message) -> None:
        with self._lock:
            if source.gone or source.cut:
                return
            if self.seed is None:
                dues = [0.0]
            else:
                key = source.name, to, lane
                dues = self._links.setdefault(key, _LossyLink(self, key)).fates()
            for due in dues:
                self._put(due, lane, partial(self._leave, source, to, message))

    def _put(self, due: float, lane: MessageLane, action: Action) -> None:
        """Schedules the call `action`, such as the delivery of a message. It is made at the time
        `due` of the monotonic clock, or now if `due` is 0. The caller holds the lock.
        """
        if due:
            heapq.heappush(self._later, (due, next(self._count), lane, action))
        else:
            self._ready[lane].append(action)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="air", daemon=True)
            self._thread.start()
        elif self._asleep:
            self._lock.notify()

    def _run(self) -> None:
        control, bulk = self._ready[MessageLane.CONTROL], self._ready[MessageLane.BULK]
        while True:
            with self._lock:
                wait_s = self._ripen()
                if not control and not bulk:
                    if not self._ends:
                        self._later.clear()
                        self._thread = None
                        return
                    self._asleep = True
                    self._lock.wait(wait_s)
                    self._asleep = False
                    continue
                queue = control or bulk
                batch = [queue.popleft() for _ in range(min(TOGETHER, len(queue)))]
            for action in batch:
                try:
                    action()
                except BaseException:  # a bug in `receive` or `seen` must not end the thread
                    args = (*sys.exc_info(), threading.current_thread())
                    threading.excepthook(threading.ExceptHookArgs(args))

    def _ripen(self) -> float | None:
        """Queues the calls whose time has come, such as deliveries of messages, for `_run`.

        Returns the seconds until the next call is due, or None if none is planned.
        """
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            _, _, lane, action = heapq.heappop(self._later)
            self._ready[lane].append(action)
        return self._later[0][0] - now if self._later else None

    def _held(self, end: _End, action: partial[None]) -> bool:
        """Returns whether the endpoint is suspended. If so, keeps `action`, a call that sends or
        delivers a message, until the endpoint resumes.
        """
        with self._lock:
            if end.stopped:
                end.kept.append(action)
            return end.stopped

    def _leave(self, source: _End, to: str, message: Message) -> None:
        if not self._held(source, partial(self._leave, source, to, message)) and not (
            source.cut or source.lost or source.gone
        ):
            self._arrive(source.name, to, message)

    def _arrive(self, sender: str, to: str, message: Message) -> None:
        end = self._ends.get(to)
        if end is None or end.cut or end.lost:
            return
        if not self._held(end, partial(self._arrive, sender, to, message)):
            end.receive(sender, message)

    def _tell(self, end: _End, name: str, alive: bool) -> None:
        if not self._held(end, partial(self._tell, end, name, alive)) and not end.gone:
            end.seen(name, alive)


class _End:
    """One endpoint, which implements MessageTransport."""

    def __init__(self, air: Air, name: str) -> None:
        self.name = name
        self._air = air
        self.receive: Receive
        self.seen: Seen
        self.watched: dict[str, bool] = {}
        """By name: what this endpoint was last told."""
        self.kept: list[partial[None]] = []
        """Actions that wait until a stopped endpoint goes on."""
        self.cut = self.stopped = self.lost = self.gone = False
        self.failures = 0

    def start(self, receive: Receive, on_presence: Seen) -> None:
        with self._air._lock:
            if self.name in self._air._ends:
                raise Refused(f"expected one node of each name, got a second {self.name!r}")
            self.receive, self.seen = receive, on_presence
            self._air._ends[self.name] = self
            self._air._look()

    def watch(self, name: str) -> None:
        with self._air._lock:
            self.watched.setdefault(check_name(name), False)
            self._air._look()

    def unwatch(self, name: str) -> None:
        with self._air._lock:
            self.watched.pop(name, None)

    def send(self, to: str, lane: MessageLane, message: Message) -> None:
        check_message(message)
        self._air._send(self, to, lane, message)

    def close(self) -> None:
        with self._air._lock:
            self._air._gone(self)


class _LossyLink:
    """Decides at random which messages of one sender, receiver and lane are lost, repeated or
    delayed.
    """

    def __init__(self, air: Air, key: tuple[str, str, MessageLane]) -> None:
        sender, to, lane = key
        self._air = air
        self._random = random.Random(f"{air.seed} {sender} {to} {lane.value}")
        self._last = 0.0

    def fates(self) -> list[float]:
        """Returns the times at which copies of the next message arrive; [] for a lost message."""
        air, drawn = self._air, self._random.random
        lost, repeated = drawn() < air.lose, drawn() < air.repeat
        return [] if lost else [self._due() for _ in range(2 if repeated else 1)]

    def _due(self) -> float:
        low, high = self._air.delay_s
        delay_s, aside = self._random.uniform(low, high), self._random.random()
        due = time.monotonic() + delay_s
        if aside < self._air.reorder:
            return due + self._random.uniform(0.1, 1.0) * HELD_BACK_S
        self._last = max(due, self._last)  # a delayed message delays those behind it, as in TCP
        return self._last
