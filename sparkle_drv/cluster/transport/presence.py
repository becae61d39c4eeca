"""Which watched endpoints are alive, by the liveliness tokens of their sessions.

An endpoint that renews its certificates is absent for a moment, which it announces by a token
RENEWS. An announced absence is reported only if it lasts longer than HOLD_S.
"""

from __future__ import annotations

import threading
import time

from sparkle_drv.cluster.transport.base import Seen

RENEWS = "renews"
HOLD_S = 3.0
"""Seconds that an endpoint may be absent while it renews its certificates."""


class Presence:
    """Turns the liveliness tokens (Zenoh) that appear and disappear into calls of `on_presence`:
    one call each time an endpoint comes or goes.
    """

    def __init__(self, on_presence: Seen) -> None:
        self._seen = on_presence
        self._lock = threading.RLock()
        self._tokens: dict[str, set[str]] = {}
        self._told: dict[str, bool] = {}
        self._held_until: dict[str, float] = {}
        self._ended = False

    def add(self, name: str) -> bool:
        """Starts watching the endpoint `name`. Returns False if it was watched already."""
        with self._lock:
            known = name in self._tokens
            self._tokens.setdefault(name, set())
            return not known

    def remove(self, name: str) -> None:
        """Stops reports about the endpoint `name`."""
        with self._lock:
            for kept in (self._tokens, self._told, self._held_until):
                kept.pop(name, None)

    def names(self) -> list[str]:
        with self._lock:
            return list(self._tokens)

    def token(self, key: str, there: bool) -> None:
        """Notes that a liveliness token has appeared (`there`) or disappeared.

        `key` is the token's key expression, which has the endpoint's name and Zenoh session.
        """
        *_, name, session = key.split("/")
        if session == RENEWS:
            if there:
                self.hold(name)
            return
        with self._lock:
            if name not in self._tokens:
                return
            tokens = self._tokens[name]
            (tokens.add if there else tokens.discard)(session)
            self._tell(name)

    def hold(self, name: str | None = None) -> None:
        """Delays reports of absence by HOLD_S while the endpoint `name` renews its certificates.

        A `name` of None means that this endpoint renews. The liveliness tokens of all endpoints are
        then forgotten, and all reports of absence are delayed.
        """
        with self._lock:
            for each in [name] if name else list(self._tokens):
                self._held_until[each] = time.monotonic() + HOLD_S
                if name is None:
                    self._tokens[each].clear()
                later = threading.Timer(HOLD_S + 0.01, self._tell, (each,))
                later.daemon = True
                later.start()

    def end(self) -> None:
        """Ends the reports of which endpoints are there; none is made after this."""
        self._ended = True

    def _tell(self, name: str) -> None:
        with self._lock:
            if name not in self._tokens:
                return
            alive = bool(self._tokens[name])
            held = not alive and time.monotonic() < self._held_until.get(name, 0.0)
            if not self._ended and not held and alive is not self._told.get(name, False):
                self._told[name] = alive
                self._seen(name, alive)
