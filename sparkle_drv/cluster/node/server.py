"""NodeServer: the devices that a machine lends, and the sessions that use them.

Each session opens its device anew, so that sessions share nothing but the hardware.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from sparkle_drv.cluster.channel.channel import Channel
from sparkle_drv.cluster.node.accounts import SHARED, Account
from sparkle_drv.cluster.node.quotas import Quotas
from sparkle_drv.cluster.node.session import END_S, NodeSession
from sparkle_drv.cluster.refused import Refused
from sparkle_drv.core import registry
from sparkle_drv.core.device import Device
from sparkle_drv.errors import DeviceNotFound

Renew = Callable[[Channel, dict[str, Any]], dict[str, Any]]
Granted = Callable[[dict[str, Any]], None]


def usable(uris: Sequence[str] | None) -> list[str]:
    """Opens each of these devices and returns their URIs. With None, returns all devices of this
    machine.

    Raises DeviceNotFound if a listed device cannot be opened, or if there is no device.
    """
    if uris is None:
        usable_uris = [info.uri for info in registry.devices()]
    else:
        usable_uris = []
        for uri in uris:
            with registry.open_device(uri) as device:
                if device.uri not in usable_uris:
                    usable_uris.append(device.uri)
    if not usable_uris:
        raise DeviceNotFound("expected a usable device to lend, got none; see `sparkle doctor`")
    return usable_uris


class NodeServer:
    """The devices that are lent, and their sessions. An Endpoint calls `accept` for each new
    session.

    `say(line)` is called when a session begins, ends or is refused. `trusted` has hashes of public
    keys (Keys.trusted): only clients with these keys may load kernel images. `renew` makes
    certificates, on a node with the CA. `granted` takes the node's own new certificate from a
    client with the CA.
    """

    def __init__(
        self, devices: Sequence[str], *, quotas: Quotas | None = None,
        trusted: Collection[str] = (), renew: Renew | None = None,
        granted: Granted | None = None, say: Callable[[str], None] = lambda line: None,
    ) -> None:  # fmt: skip
        self.devices = list(devices)
        self.quotas = quotas or Quotas()
        self._trusted, self._renew, self._say = frozenset(trusted), renew, say
        self._granted = granted
        self._lock = threading.Lock()
        self._sessions: set[NodeSession] = set()
        self._accounts: dict[str, Account] = {}
        """By the client's name in its certificate."""

    def accept(self, channel: Channel) -> None:
        """Begins the session of a new channel. Raises Refused if the client has too many."""
        client, words = channel.keys.peer, ""
        with self._lock:
            account = self._accounts.setdefault(client, Account(self.quotas))
            held = account.held("sessions")
            if held >= self.quotas.sessions:
                words = f"quota sessions: {self.quotas.sessions} at most, {held} are here"
            else:
                account.take("sessions")
                self._sessions.add(NodeSession(channel, self, account))
            self._forget_empty()
        if words:
            self._say(f"{client}: refused: {words}")
            raise Refused(words)
        self._say(f"{client}: begins")

    def _forget_empty(self) -> None:
        """Forgets the accounts of clients that hold nothing. The caller holds the lock."""
        for client in [name for name, account in self._accounts.items() if account.empty]:
            del self._accounts[client]

    def live(self) -> dict[str, int]:
        """Returns how much of each quota all sessions hold together, by the name of the quota.
        Bytes of departed clients that are still in use count, too.
        """
        with self._lock:
            sessions, accounts = list(self._sessions), list(self._accounts.values())
        total = {"sessions": len(sessions)}
        for session in sessions:
            for name, count in session.counts().items():
                total[name] = total.get(name, 0) + count
        shared = {name: sum(account.held(name) for account in accounts) for name in SHARED}
        return {**total, **{name: count for name, count in shared.items() if sessions or count}}

    def close(self) -> None:
        """Ends every session; idempotent."""
        with self._lock:
            ending = list(self._sessions)
        for session in ending:
            session.channel.end("the node ends")
        for session in ending:
            if session.thread is not threading.current_thread():
                session.thread.join(3 * END_S)

    def ask_renewal(self, request: dict[str, Any]) -> None:
        """Asks all clients to send a new certificate for the node."""
        with self._lock:
            asked = list(self._sessions)
        for session in asked:
            session.ask_renewal(request)

    def end_revoked(self, keys: Collection[bytes]) -> None:
        """Ends the sessions of clients whose public key has one of these hashes."""
        with self._lock:
            asked = list(self._sessions)
        for session in asked:
            if bytes.fromhex(session.channel.keys.trusted) in keys:
                session.channel.end("the certificate is revoked")

    # The following methods implement the protocol Lender (session.py). Sessions call them.

    def open(self, uri: str, threads: int, deterministic: bool, isa: str) -> Device:
        spelt = set(registry.spellings(uri)) | {uri}
        offered = next((own for own in self.devices if spelt & set(_spellings(own))), None)
        if offered is None:
            raise DeviceNotFound(f"expected one of {', '.join(self.devices)}, got {uri!r}")
        return registry.open_as(offered, threads or None, deterministic, isa)

    def trusts(self, key: str) -> bool:
        return bool(key) and key in self._trusted

    def renew(self, channel: Channel, request: dict[str, Any]) -> dict[str, Any]:
        if self._renew is None:
            raise Refused("expected a node that makes certificates, got one that does not")
        return self._renew(channel, request)

    def granted(self, grant: dict[str, Any]) -> None:
        if self._granted is None:
            raise Refused("expected a certificate that this node asked for, got another")
        self._granted(grant)

    def ended(self, session: NodeSession, words: str) -> None:
        with self._lock:
            self._sessions.discard(session)
            session.account.give("sessions")
            self._forget_empty()
        self._say(f"{session.channel.keys.peer}: ends: {words or 'closed'}")


def _spellings(uri: str) -> Iterator[str]:
    yield uri
    with contextlib.suppress(ValueError):
        yield from registry.spellings(uri)
