"""Where a host is: SPARKLE_HOME/cluster/hosts.json, such as {"box1": "tls/10.0.0.5:7447"}; and the
connections of this process, one for each address, which all devices behind it share.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sparkle_drv.cluster.channel.channel import Channel
from sparkle_drv.cluster.channel.endpoint import Caller, Endpoint
from sparkle_drv.cluster.refused import Refused
from sparkle_drv.errors import DeviceNotFound

FORM = '{"NAME": "tls/host:port"} or {"NAME": {"address": "tls/host:port", "seal": true}}'


class Host(NamedTuple):
    """What hosts.json says of one."""

    name: str
    address: str
    seal: bool


def look_up(home: str, name: str) -> Host:
    """Raises DeviceNotFound, which names the file and the line to add."""
    file = Path(home, "cluster", "hosts.json")
    line = f'"{name}": "tls/HOST:7447"'
    try:
        listed = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise DeviceNotFound(f"{name}: {file} is not there; write {{{line}}} into it") from None
    except (OSError, ValueError) as error:
        raise DeviceNotFound(f"{file}: expected {FORM}, got {error}") from None
    if not isinstance(listed, dict):
        raise DeviceNotFound(f"{file}: expected {FORM}, got a {type(listed).__name__}")
    if name not in listed:
        there = ", ".join(sorted(listed)) or "none"
        raise DeviceNotFound(f"{name}: {file} lists {there}; add {line} to it")
    given = listed[name]
    entry = {"address": given} if isinstance(given, str) else given
    known = isinstance(entry, dict) and not set(entry) - {"address", "seal"}
    address, seal = (entry.get("address"), entry.get("seal", False)) if known else (None, False)
    if not isinstance(address, str) or not isinstance(seal, bool):
        raise DeviceNotFound(f"{file}: {name}: expected {FORM}, got {json.dumps(given)[:200]}")
    if address.partition("/")[0] not in DIALS:
        raise DeviceNotFound(f"{file}: {name}: expected tls/host:port, got {address[:200]!r}")
    return Host(name, address, seal)


Dial = Callable[[str, str], tuple[Endpoint, Callable[[str, bool], Caller]]]
"""dial(home, address): an endpoint there, and what makes a handshake with a node of that name,
sealed or not. Raises Refused."""


def _engine(home: str, address: str) -> tuple[Endpoint, Callable[[str, bool], Caller]]:
    if _inherited:
        raise Refused(
            f"{address}: this process was forked from one that had a connection, and Zenoh does "
            "not work in it: start a new process in place of a fork"
        )
    try:
        from sparkle_drv.cluster.transport.engine import Engine
        from sparkle_drv.cluster.trust import handshake, identity
    except ImportError as error:
        raise Refused(
            f"{address}: devices of other machines need sparkle_drv[cluster]: {error}"
        ) from None
    own = identity.load(home)
    name = f"{own.name[:40]}-{os.urandom(6).hex()}"
    folder = own.folder if address.startswith("tls/") else None
    try:
        endpoint = Endpoint(Engine(name, folder, connect=[address]))
    except ValueError as error:
        raise Refused(f"{Path(home, 'cluster', 'hosts.json')}: {error}") from None
    return endpoint, lambda node, seal: handshake.Caller(own, node, seal)


DIALS: dict[str, Dial] = {"tls": _engine, "tcp": _engine}
"""By the protocol in front of an address; tests add their own."""


@dataclass
class _Shared:
    """An endpoint and the devices that use it."""

    lock: threading.Lock = field(default_factory=threading.Lock)  # held while it is opened
    endpoint: Endpoint | None = None
    caller: Callable[[str, bool], Caller] | None = None
    users: int = 0


_shared: dict[tuple[str, str], _Shared] = {}
_lock = threading.Lock()
_inherited: list[Any] = []


def connect(home: str, host: Host) -> tuple[Channel, Callable[[], None]]:
    """A session with the node, and what is to be called once when it is over. Raises Refused."""
    key = (home, host.address)
    with _lock:
        shared = _shared.setdefault(key, _Shared())
        shared.users += 1
    try:
        with shared.lock:
            if shared.endpoint is None:
                shared.endpoint, shared.caller = DIALS[host.address.partition("/")[0]](*key)
        assert shared.caller is not None
        channel = shared.endpoint.connect(host.name, shared.caller(host.name, host.seal))
    except BaseException:
        _release(key, shared)
        raise
    return channel, lambda: _release(key, shared)


def _release(key: tuple[str, str], shared: _Shared) -> None:
    with _lock:
        shared.users -= 1
        if shared.users:
            return
        if _shared.get(key) is shared:
            del _shared[key]
    if shared.endpoint is not None:
        shared.endpoint.close()


def _forget() -> None:
    """In a forked child: the threads of these connections did not come along."""
    global _lock
    _lock = threading.Lock()
    for shared in _shared.values():
        if shared.endpoint is not None:  # without its threads it would hang as the child ends
            atexit.unregister(shared.endpoint.transport.close)
    if _shared:  # kept for ever: their destructors are not the child's to run
        _inherited.append(dict(_shared))
    _shared.clear()


os.register_at_fork(after_in_child=_forget)
