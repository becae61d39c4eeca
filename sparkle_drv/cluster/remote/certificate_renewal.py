"""Renews certificates while a connection is open. This machine's certificate is renewed by a CA on
this machine, or else over a session with a node that has the CA. A CA on this machine also renews
the certificates of nodes that ask.
"""

from __future__ import annotations

import logging
import threading
import weakref
from typing import Any

from sparkle_drv.cluster.remote.session import ClientSession
from sparkle_drv.cluster.transport.base import Stalled
from sparkle_drv.cluster.transport.engine import Engine
from sparkle_drv.cluster.trust import authority, files, identity, renewal
from sparkle_drv.cluster.trust.identity import Identity
from sparkle_drv.errors import SparkleError

log = logging.getLogger("sparkle_drv.cluster")

ANSWER_S = 10.0
"""Seconds that a node has to answer."""


class Renewing:
    """A thread that checks and renews the certificate of one connection."""

    def __init__(self, own: Identity, engine: Engine) -> None:
        self.own = own
        """This machine's identity, with its newest certificate."""
        self._home, self._engine = str(own.folder.parent), engine
        self._has_ca = (own.folder / files.CA_KEY).exists()
        self._sessions: weakref.WeakSet[ClientSession] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._said = ""
        threading.Thread(target=self._run, name="sparkle-renew", daemon=True).start()

    def add(self, session: ClientSession) -> None:
        """Adds a session, which may then carry renewal requests and grants."""
        with self._lock:
            self._sessions.add(session)
        if self._has_ca:
            there = weakref.ref(session)
            session.on_renew = lambda request: self._asked(there(), request)

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(renewal.look_s(self.own)):
            try:
                found = self._newest()
                if found.der != self.own.der:
                    self._engine.renewed(found.folder)
                    self.own = found
            except (SparkleError, Stalled, ValueError, OSError) as error:
                if not self._closed.is_set():
                    self._say(f"{self.own.name}: {error}")

    def _newest(self) -> Identity:
        """Returns the identity from the files, which another process may have renewed. Renews the
        certificate first if that is due.
        """
        own = identity.read(self._home)
        if not renewal.due(own):
            return own
        if self._has_ca:
            return renewal.renew(own)
        with self._lock:
            sessions = list(self._sessions)
        why = "no session is open"
        for session in sessions:
            try:
                reply = session.ask("renew", ANSWER_S, request=renewal.renewal_request(own))
                return renewal.renewal_take(own, reply.get("grant"))
            except SparkleError as error:
                why = str(error)
        self._say(f"{own.name}: the certificate is not renewed: {why}")
        return own

    def _asked(self, session: ClientSession | None, request: dict[str, Any]) -> None:
        threading.Thread(
            target=self._grant, args=(session, request), name="sparkle-grant", daemon=True
        ).start()

    def _grant(self, session: ClientSession | None, request: dict[str, Any]) -> None:
        if session is None:
            return
        keys = session.channel.keys
        try:
            ca = authority.load(self._home)
            grant = renewal.renewal_grant(ca, request, keys.peer, keys.role)
            session.ask("granted", ANSWER_S, grant=grant)
        except (SparkleError, ValueError, OSError) as error:
            self._say(f"{keys.peer}: its certificate is not renewed: {error}")

    def _say(self, line: str) -> None:
        """Logs a problem when it first appears, not again at each check."""
        if line != self._said:
            self._said = line
            log.warning("%s", line)
