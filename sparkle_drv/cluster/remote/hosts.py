"""Addresses of hosts: SPARKLE_HOME/cluster/hosts.json, such as {"box1": "tls/10.0.0.5:7447"}. The
module also holds this process's connections: all devices at one address share one connection.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sparkle_drv.cluster.channel.endpoint import ClientHandshake, Endpoint
from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.remote.session import ClientSession
from sparkle_drv.errors import DeviceNotFound

if TYPE_CHECKING:
    from sparkle_drv.cluster.remote.certificate_renewal import Renewing

FORM = '{"NAME": "tls/host:port"}'


class Host(NamedTuple):
    """One entry of hosts.json."""

    name: str
    address: str


def look_up(home: str, name: str) -> Host:
    """Returns the entry of a host. Raises DeviceNotFound with the file and the line to add."""
    file = Path(home, "cluster", "hosts.json")
    line = f'"{name}": "tls/HOST:7447"'
    try:
        listed = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise DeviceNotFound(f"{name}: {file} is missing; write {{{line}}} into it") from None
    except (OSError, ValueError, RecursionError) as error:
        words = getattr(error, "strerror", None) or error
        raise DeviceNotFound(f"{file}: expected {FORM}, got {words}") from None
    if not isinstance(listed, dict):
        raise DeviceNotFound(f"{file}: expected {FORM}, got a {type(listed).__name__}")
    if name not in listed:
        there = ", ".join(sorted(listed)) or "none"
        raise DeviceNotFound(f"{name}: {file} lists {there}; add {line} to it")
    address = listed[name]
    if not isinstance(address, str):
        raise DeviceNotFound(f"{file}: {name}: expected {FORM}, got {json.dumps(address)[:200]}")
    if address.partition("/")[0] not in DIALS:
        raise DeviceNotFound(f"{file}: {name}: expected tls/host:port, got {address[:200]!r}")
    return Host(name, address)


class Dialed(NamedTuple):
    """The endpoint of a connection to one address."""

    endpoint: Endpoint
    caller: Callable[[str], ClientHandshake]
    """Makes a handshake with a node of that name."""
    renewing: Renewing | None = None


Dial = Callable[[str, str], Dialed]
"""dial(home, address) makes an endpoint that is linked to `address`, or raises Refused."""


def _engine(home: str, address: str) -> Dialed:
    try:
        from sparkle_drv.cluster.remote.certificate_renewal import Renewing
        from sparkle_drv.cluster.transport import access
        from sparkle_drv.cluster.transport.engine import Engine
        from sparkle_drv.cluster.trust import handshake, identity
    except ImportError as error:
        raise Refused(
            f"{address}: devices of other machines need sparkle_drv[cluster]: {error}"
        ) from None
    own = identity.load(home)
    name = access.client_endpoint(own.common_name, f"{own.name[:40]}-{os.urandom(6).hex()}")
    folder = own.folder if address.startswith("tls/") else None
    try:
        engine = Engine(name, folder, connect=[address])
        endpoint = Endpoint(engine)
    except ValueError as error:
        raise Refused(f"{Path(home, 'cluster', 'hosts.json')}: {address}: {error}") from None
    renewing = Renewing(own, engine)
    return Dialed(endpoint, lambda node: handshake.Caller(renewing.own, node), renewing)


DIALS: dict[str, Dial] = {"tls": _engine, "tcp": _engine}
"""By the protocol of an address; tests add their own."""


@dataclass
class _Shared:
    """The endpoint of one address, and how many devices use it."""

    # held while the endpoint is opened
    lock: threading.Lock = field(default_factory=threading.Lock)
    dialed: Dialed | None = None
    users: int = 0


_shared: dict[tuple[str, str], _Shared] = {}
_lock = threading.Lock()
_inherited: list[Any] = []


def connect(home: str, host: Host, uri: str) -> tuple[ClientSession, Callable[[], None]]:
    """Connects to a node. Returns a session, and a function to call once when the session is over.
    `uri` names the device in errors. Raises Refused if the node refuses the session or does not
    answer.
    """
    key = (home, host.address)
    with _lock:
        shared = _shared.setdefault(key, _Shared())
        shared.users += 1
    try:
        with shared.lock:
            if shared.dialed is None:
                shared.dialed = DIALS[host.address.partition("/")[0]](*key)
        there = shared.dialed
        channel = there.endpoint.connect(host.name, there.caller(host.name))
    except BaseException:
        _release(key, shared)
        raise
    session = ClientSession(channel, uri)
    if there.renewing is not None:
        there.renewing.add(session)
    return session, lambda: _release(key, shared)


def _release(key: tuple[str, str], shared: _Shared) -> None:
    with _lock:
        shared.users -= 1
        if shared.users:
            return
        if _shared.get(key) is shared:
            del _shared[key]
    if shared.dialed is not None:
        if shared.dialed.renewing is not None:
            shared.dialed.renewing.close()
        shared.dialed.endpoint.close()


def _forget() -> None:
    """Drops all connections in a forked child, since their threads exist only in the parent."""
    global _lock
    _lock = threading.Lock()
    if _shared:  # keeps the objects for ever: the child must not run their destructors
        _inherited.append(dict(_shared))
    _shared.clear()


os.register_at_fork(after_in_child=_forget)
