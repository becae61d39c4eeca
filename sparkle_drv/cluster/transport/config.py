"""Endpoints as text, and Zenoh's settings, which measurements chose.

A node routes and listens; a client does not listen. Multicast discovery is off. access.py decides
which keys are served. All links except those of the loopback interface use mutual TLS.
"""

from __future__ import annotations

import ipaddress
import itertools
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sparkle_drv.cluster.transport import access
from sparkle_drv.cluster.transport.base import MOST_NBYTES

PORT = 7447
"""Default port of a node."""
LEASE_MS = 2000
"""Silence after which a link is lost; four keep-alives are sent in that time."""
WAIT_BEFORE_CLOSE_US = 5_000_000
"""Time without a byte taken of a message after which a link is closed."""
BATCHES = 16
"""Batches of 64 KiB that wait for a link, of control and of bulk each: Zenoh's maximum. A router
must hold all credit of a receiver that stops; otherwise it stops reading from its senders."""
WAIT_BEFORE_DROP_US = 50_000
"""Time after which control that no link takes is dropped; the sender repeats it."""
OPEN_MS = 5000
"""Time that establishing a link may take."""
SNDBUF, RCVBUF = 128 << 10, 2 << 20
"""Socket buffers, which Linux doubles. Control waits behind the bulk of the send buffer: 11 ms at
200 Mbit/s, 46 ms with 512 KiB. A link carries twice SNDBUF per round trip.

The receive buffer holds 2 MiB, the credit of a receiver. While a write to a suspended receiver is
stuck, Zenoh does not end the link when its lease does. Behind a router control waits 55 ms with any
of these sizes: what exceeds BATCHES waits before the router, in the sender's link. Linux limits
RCVBUF to net.core.rmem_max. With 208 KiB, the default of older kernels, one of 40 requests of
bystanders was lost."""
FILES = ("ca.pem", "cert.pem", "key.pem")


class EndpointAddress(NamedTuple):
    """One checked address of an endpoint."""

    protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.protocol}/{host}:{self.port}"


def endpoint(text: str) -> EndpointAddress:
    """Parses "tls/host:port". "tcp/..." is plaintext, which only loopback addresses may use."""
    form = re.fullmatch(r"(tls|tcp)/(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,253}):([0-9]{1,5})", text)
    if form is None or not 0 < int(form[3]) < 1 << 16:
        raise ValueError(f"expected tls/host:port, got {text[:300]!r}")
    made = EndpointAddress(form[1], form[2].strip("[]"), int(form[3]))
    return _loopback(made) if made.protocol == "tcp" else made


def _loopback(plain: EndpointAddress) -> EndpointAddress:
    """Returns the endpoint with its address resolved, so that the name cannot mean another host
    later. Raises ValueError if the name stands for any address that is not a loopback address.
    """
    try:
        addresses = {info[4][0] for info in socket.getaddrinfo(plain.host, plain.port)}
    except OSError as error:
        raise ValueError(f"expected tls/host:port, got {plain}: {error.strerror}") from None
    others = sorted(str(a) for a in addresses if not ipaddress.ip_address(str(a)).is_loopback)
    if others:
        raise ValueError(
            f"expected tls/host:port, got {plain}: plaintext is for loopback addresses only, "
            f"not for {others[0]}"
        )
    return plain._replace(host=str(min(addresses)))


def settings(
    folder: Path | None, listen: Sequence[EndpointAddress], connect: Sequence[EndpointAddress],
    node: bool, binds: Sequence[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """Returns Zenoh's configuration as a dict that JSON can express. `folder` has the certificates
    for TLS. `binds` has the local addresses from which a client connects ("": any).
    """
    every = (*listen, *connect)
    protocols = sorted({each.protocol for each in every}) or ["tls"]
    if listen and not node:
        raise ValueError(f"expected a client to listen nowhere, got {listen[0]}")
    link: dict[str, Any] = {
        "protocols": protocols,
        "tx": {
            "lease": LEASE_MS,
            "keep_alive": 4,
            "queue": {
                "size": {"real_time": BATCHES, "background": BATCHES},
                "congestion_control": {
                    "block": {"wait_before_close": WAIT_BEFORE_CLOSE_US},
                    "drop": {"wait_before_drop": WAIT_BEFORE_DROP_US},
                },
            },
        },
        # Zenoh drops messages above this limit silently. `send` of this package refuses messages of
        # more than half of it, and raises an error.
        "rx": {"max_message_size": 2 * MOST_NBYTES},
        "tcp": {"so_sndbuf": SNDBUF, "so_rcvbuf": RCVBUF},
    }
    if "tls" in protocols:
        link["tls"] = _tls(folder, node)
    return {
        "mode": "router" if node else "client",
        "listen": {"endpoints": [str(each) for each in listen], "exit_on_failure": True},
        "connect": {
            "endpoints": [
                text
                for each, bind in itertools.zip_longest(connect, binds)
                for text in _from(each, bind)
            ],
            # A node tries for ever (-1), because it may start before the nodes that it joins. A
            # client cannot work without a node, so it gives up after OPEN_MS.
            "timeout_ms": -1 if node else OPEN_MS,
            "exit_on_failure": not node,
            "retry": {
                "period_init_ms": 200,
                "period_max_ms": 1000,
                "period_increase_factor": 2,
            },
        },
        "scouting": {
            "delay": 0,
            "multicast": {"enabled": False},
            # Addresses that unknown endpoints announce are used only for links with TLS.
            "gossip": {
                "enabled": protocols == ["tls"],
                "multihop": True,
                "autoconnect": {"router": ["router"], "peer": ["router", "peer"]},
            },
        },
        "timestamping": {"enabled": False},
        "adminspace": {"enabled": False},
        "access_control": access.rules(node),
        "transport": {
            "unicast": {"open_timeout": OPEN_MS, "accept_timeout": OPEN_MS},
            "link": link,
            "shared_memory": {"enabled": False},
        },
    }


def _from(each: EndpointAddress, bind: str | None) -> list[str]:
    """Returns a node's endpoints for Zenoh: from a local address if `bind` names one, then from any
    other. A client tries the second one if the first one fails, and both when it connects again:
    the local address may then be in use by the old connection.
    """
    return [f"{each}#bind={bind}", str(each)] if bind else [str(each)]


def _tls(folder: Path | None, node: bool) -> dict[str, Any]:
    if folder is None:
        raise ValueError("expected a folder with certificates for tls, got None")
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise ValueError(f"expected {', '.join(FILES)} in {folder}, got no {missing[0]}")
    ca, certificate, key = (str(folder / name) for name in FILES)
    shown = {"listen_certificate": certificate, "listen_private_key": key} if node else {}
    return {
        "root_ca_certificate": ca,
        "connect_certificate": certificate,
        "connect_private_key": key,
        **shown,
        "enable_mtls": True,
        "verify_name_on_connect": True,
        "close_link_on_expiration": True,
        "so_sndbuf": SNDBUF,
        "so_rcvbuf": RCVBUF,
    }
