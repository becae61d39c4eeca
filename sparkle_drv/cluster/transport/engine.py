"""The transport over Zenoh: key expressions, liveliness tokens, renewal of certificates.

A message is a put to `sparkle/<role>/<to>/<from>/<lane>`. Zenoh's queries are not used, since a
failed query looks like an empty answer. An endpoint is alive while its token
`sparkle/alive/<role>/<name>/<session>` exists.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import queue
import re
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.transport import access, config, probe
from sparkle_drv.cluster.transport.base import (
    Message,
    MessageLane,
    Receive,
    Seen,
    Stalled,
    check_message,
    check_name,
)
from sparkle_drv.cluster.transport.gate import ConnectionGate
from sparkle_drv.cluster.transport.presence import HOLD_S, RENEWS, Presence
from sparkle_drv.cluster.transport.senders import WATCHDOG_S, Senders

if TYPE_CHECKING:
    import zenoh

log = logging.getLogger("sparkle_drv.cluster")

LOOK_S = 1.0
"""Seconds that a node looks for another one of its name before it shows itself."""
AGAIN_S = 0.1
"""Seconds until a renewed endpoint that cannot open tries again."""
ENDED_S = 6.0
"""Seconds that opening or closing a session may take; then a thread is left to finish it."""


CALLING_S = 0.1
"""Seconds after which threads of a closed session have made their last callbacks."""
_living: weakref.WeakSet[Engine] = weakref.WeakSet()
_closed_s = [0.0]
_opened = [False]  # whether Zenoh was opened in this process, or in a parent before a fork
_forked = [False]


def _in_child() -> None:
    """Forgets open sessions in a forked child. Zenoh's threads exist only in the parent, so such a
    session would hang at the child's exit.
    """
    _living.clear()
    _closed_s[0] = 0.0
    _forked[0] = _opened[0]


os.register_at_fork(after_in_child=_in_child)


@atexit.register
def _at_exit() -> None:
    """Closes all sessions, since Zenoh hangs at exit with an open one. Then waits for running
    callbacks: one that runs after the interpreter has ended aborts the process.
    """
    for engine in list(_living):
        engine.close()
    time.sleep(max(0.0, _closed_s[0] + CALLING_S - time.monotonic()))


class Engine:
    """One endpoint on Zenoh. A node routes and listens; a client does neither."""

    def __init__(
        self,
        name: str,
        folder: Path | None,
        listen: Sequence[str] = (),
        connect: Sequence[str] = (),
        node: bool = False,
        watchdog_s: float = WATCHDOG_S,
        say: Callable[[str], None] = log.info,
        revoked: Callable[[bytes], bool] = lambda der: False,
    ) -> None:
        """`say(line)` gets a line for each connection that a node's gate refuses. The gate also
        refuses whose certificate, encoded as DER, `revoked` says is revoked.
        """
        self.name = check_name(name)
        self._folder, self._node = folder, node
        self._listen = [config.endpoint(text) for text in listen]
        self._connect = [config.endpoint(text) for text in connect]
        if not node and not connect:
            raise ValueError("expected an address for a client to connect to, got none")
        self.trouble: list[str] = []
        """Addresses that a node could not join when it started, and why; it keeps trying."""
        self._session: zenoh.Session | None = None
        self._say, self._revoked = say, revoked
        self._gate: ConnectionGate | None = None
        self._declared: list[Any] = []
        self._watched: dict[str, Any] = {}
        self._senders = Senders(self._put, watchdog_s)
        self._lock = threading.RLock()
        self._closed = False

    def start(self, receive: Receive, on_presence: Seen) -> None:
        self._receive, self._presence = receive, Presence(on_presence)
        _living.add(self)
        try:
            self._open(look=True)
        except BaseException:
            self.close()
            raise
        self._senders.start()

    def watch(self, name: str) -> None:
        with self._lock:
            if self._presence.add(check_name(name)):
                session = self._opened()
                _bounded(lambda: self._watch(session, name))

    def unwatch(self, name: str) -> None:
        with self._lock:
            self._presence.remove(name)
            watched = self._watched.pop(name, None)
            # Zenoh raises ZError if the session closes at the same time
            with contextlib.suppress(Exception):
                if watched is not None:
                    _bounded(watched.undeclare)

    def send(self, to: str, lane: MessageLane, message: Message) -> None:
        check_message(message)
        if self._closed:
            raise Stalled("the endpoint is closed")
        key = access.message_key(check_name(to), self.name, lane.value)
        self._senders.send(key, lane, message)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        _living.discard(self)
        self._senders.end()
        self._presence.end()
        self._shut()

    def renewed(self, folder: Path) -> None:
        """Reopens the session with new certificates from `folder`. Messages during that time are
        lost. Others see this endpoint go only if it stays away longer than HOLD_S.
        """
        with self._lock:
            self._folder = folder
            # Called only for its ValueError, before the old session is closed.
            config.settings(folder, self._listen, self._connect, self._node)
            if self._closed:
                raise Stalled("the endpoint is closed")
            self._say_renewal()
            self._presence.hold()
            self._shut()
            until = time.monotonic() + HOLD_S
            while True:  # opening may fail while the other end renews its own session
                try:
                    return self._open(look=False)
                except Refused:
                    if time.monotonic() >= until:
                        raise
                    time.sleep(AGAIN_S)

    def _say_renewal(self) -> None:
        """Announces by a liveliness token that this endpoint renews its certificates.

        A message could arrive too late: Zenoh handles messages and tokens in different threads.
        Only tokens arrive in the order in which they were declared.
        """
        session, key = self._session, access.token_key(self.name, RENEWS)
        if session is not None:  # the session is None if the last renewal could not open a session
            _bounded(lambda: self._declared.append(session.liveliness().declare_token(key)))

    def _opened(self) -> zenoh.Session:
        if self._session is None:
            raise Stalled("the endpoint is closed")
        return self._session

    def _open(self, look: bool) -> None:
        if _forked[0]:
            raise Refused(
                f"{self._about()}: expected a new process, got a fork of one that had a "
                "connection, in which Zenoh does not work"
            )
        import zenoh

        _opened[0] = True
        # Called only for its ValueError, before anything is sent.
        config.settings(self._folder, self._listen, self._connect, self._node)
        answers = [self._probe(where, ENDED_S / 2) for where in self._connect]
        failed = [
            f"{where}: {answer.reason}"
            for where, answer in zip(self._connect, answers, strict=True)
            if answer.reason
        ]
        if failed and len(failed) == len(self._connect) and not self._node:
            raise Refused("; ".join(failed))
        self.trouble = failed
        binds = [answer.bind for answer in answers]
        text = json.dumps(
            config.settings(self._folder, self._listen, self._connect, self._node, binds)
        )
        try:
            session = _bounded(lambda: zenoh.open(zenoh.Config.from_json5(text)))
        except zenoh.ZError as error:
            raise Refused(self._plainly(str(error))) from None
        if session is None:
            raise Refused(
                f"{self._about()}: expected Zenoh to open within {ENDED_S:g} s, got no session"
            )
        self._session = session
        self._close_in()
        if look and self._connect:
            self._look(session)
        _bounded(lambda: self._declare(session))
        # Looks again: a node of the same name may have started since the first look.
        if look and self._connect and self._node:
            self._look(session, self._token(session))

    def _probe(self, where: config.EndpointAddress, timeout_s: float) -> probe.Answer:
        # A node's Zenoh connects to all its addresses, again and again: from any port.
        return probe.ask(where, self._folder, timeout_s, tell_port=not self._node)

    def _close_in(self) -> None:
        """Puts the gate before the sockets that listen with TLS, if this system can do that."""
        ports = [where.port for where in self._listen if where.protocol == "tls"]
        if not ports or self._folder is None:
            return
        try:
            self._gate = ConnectionGate(ports, self._folder, self._say, self._revoked)
        except OSError as error:
            log.warning("%s: strangers may keep new clients out: %s", self.name, error)

    def _token(self, session: zenoh.Session) -> str:
        return access.token_key(self.name, str(session.zid()))

    def _declare(self, session: zenoh.Session) -> None:
        """Declares the subscribers of this endpoint's messages and its liveliness token.

        Runs in a daemon thread: Zenoh's callback threads are then daemons, too, and an ending
        interpreter does not wait for them.
        """
        keep = self._declared.append
        for lane in MessageLane:
            key = access.message_key(self.name, "*", lane.value)
            keep(session.declare_subscriber(key, self._on_put))
        for name in self._presence.names():
            self._watch(session, name)
        keep(session.liveliness().declare_token(self._token(session)))

    def _look(self, session: zenoh.Session, own: str = "") -> None:
        """Raises Refused if another endpoint has the same name.

        A restarted node may still see the liveliness token of its earlier process, until that
        process's lease ends. So the node waits for one lease. If two endpoints have tokens of this
        name, the endpoint whose token's key expression sorts first stays.
        """
        there: set[str] = set()

        def note(key: str, alive: bool) -> None:
            if not own or key < own:
                (there.add if alive else there.discard)(key)

        looking = _bounded(lambda: _tokens(session, self.name, note))
        time.sleep(LOOK_S if self._node else 0)
        until = time.monotonic() + config.LEASE_MS / 1e3 + LOOK_S
        while there and time.monotonic() < until:
            time.sleep(0.02)
        looking.undeclare()
        if there:
            raise Refused(f"expected one node of each name, got a second {self.name!r}")

    def _watch(self, session: zenoh.Session, name: str) -> None:
        self._watched[name] = _tokens(session, name, self._presence.token)

    def _on_put(self, sample: zenoh.Sample) -> None:
        sender = str(sample.key_expr).split("/")[-2]
        if not self._closed:
            self._receive(sender, sample.payload.to_bytes())

    def _put(self, key: str, lane: MessageLane, message: Message) -> None:
        import zenoh

        session, urgent = self._session, lane is MessageLane.CONTROL
        how = zenoh.CongestionControl
        try:
            if session is not None:
                session.put(
                    key,
                    message,
                    priority=zenoh.Priority.REAL_TIME if urgent else zenoh.Priority.BACKGROUND,
                    express=urgent,
                    congestion_control=how.DROP if urgent else how.BLOCK,
                )
        except zenoh.ZError:
            pass  # the session is closing or reopening, so the message is lost, as on a bad link

    def _shut(self) -> None:
        session, self._session, self._declared, self._watched = self._session, None, [], {}
        gate, self._gate = self._gate, None
        if gate is not None:  # first, since its socket would keep Zenoh from listening anew
            gate.close()
        if session is not None:
            _bounded(session.close)
            _closed_s[0] = time.monotonic()

    def _about(self) -> str:
        return ", ".join(map(str, (*self._connect, *self._listen))) or "no address"

    def _plainly(self, message: str) -> str:
        """Returns a one-line message for an error of Zenoh, whose own text names Zenoh's source
        files.
        """
        again = [(where, self._probe(where, 1.0).reason) for where in self._connect]
        for where, why in again:
            if why and not self._node:
                return f"{where}: {why}"
        number = re.search(r"os error (\d+)", message)
        if number is not None and self._listen:
            listens = next((str(e) for e in self._listen if f"{e.host}:{e.port}" in message), "")
            where_text = listens or self._about()
            return f"{where_text}: cannot listen: {os.strerror(int(number[1])).lower()}"
        first = re.sub(r" at /\S+", "", message.splitlines()[0])[:300]
        return f"{self._about()}: {first}"


def log_links(level: str) -> None:
    """Makes Zenoh write its log lines about links to file descriptor 1. The environment variable
    RUST_LOG, if set, decides instead what Zenoh logs.
    """
    import zenoh

    zenoh.init_log_from_env_or(level)


def _tokens(session: zenoh.Session, name: str, on_token: Callable[[str, bool], None]) -> Any:
    """Calls `on_token(key, alive)` for each liveliness token (Zenoh) that the endpoint `name` has
    now, and each time that such a token appears or disappears.
    """
    import zenoh

    def on_sample(sample: zenoh.Sample) -> None:
        on_token(str(sample.key_expr), sample.kind == zenoh.SampleKind.PUT)

    key = access.token_key(name, "*")
    return session.liveliness().declare_subscriber(key, on_sample, history=True)


def _bounded(action: Callable[[], Any]) -> Any:
    """Runs the action in a thread. Returns its result. After ENDED_S without a result, returns None
    and lets the action continue.
    """
    done: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put((action(), None))
        except BaseException as error:
            done.put((None, error))

    threading.Thread(target=run, name="zenoh", daemon=True).start()
    try:
        result, error = done.get(timeout=ENDED_S)
    except queue.Empty:
        return None
    if error is not None:
        raise error
    return result
