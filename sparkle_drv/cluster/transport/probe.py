"""Finds out why an address does not answer, since Zenoh says "Timeout!" for every reason.

The probe connects without Zenoh: TCP, then TLS with the same certificates. It then reads how the
other end reacts to our certificate. A probe of a reachable node costs three round trips.

A node with a gate (gate.py) lets nobody connect to Zenoh who has not proved a certificate before.
The probe is this proof. It also tells the gate the port from which Zenoh will connect, so that the
gate lets in this one connection, and no stranger behind the same address.
"""

from __future__ import annotations

import errno
import select
import socket
import ssl
import time
from pathlib import Path
from typing import NamedTuple

from sparkle_drv.cluster.transport.config import FILES, EndpointAddress
from sparkle_drv.cluster.transport.gate import GATE, PORT, REVOKED

ANSWER_S = 2.0
"""Seconds to wait. A node that accepts a certificate sends a session ticket at once; a refusal may
take longer on busy cores."""
PLAIN_S = 0.3
"""Seconds to wait for a port without TLS, which sends nothing."""

TLS_ALERT = b"\x15"
"""RFC 8446, section 5.1: the content type of an alert."""

_OTHER_CA = (19, 20)  # X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, ..._UNABLE_TO_GET_ISSUER_CERT_LOCALLY

ALERTS = {
    "CERTIFICATE_EXPIRED": "our certificate has expired",
    "CERTIFICATE_REVOKED": "our certificate is revoked",
    "CERTIFICATE_REQUIRED": "a certificate is required, we have none",
    "UNKNOWN_CA": "it does not know the CA of our certificate",
    "DECRYPT_ERROR": "our certificate is not of its CA",
    "BAD_CERTIFICATE": "our certificate is not of its CA",
    "UNSUPPORTED_CERTIFICATE": "our certificate is not for this purpose",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "UNEXPECTED_EOF": "it closed the connection in the TLS handshake; does it speak TLS?",
}
ERRNOS = {
    errno.ECONNREFUSED: "nobody listens",
    errno.ECONNRESET: "it closed the connection",
    errno.EPIPE: "it closed the connection",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "no route to the network",
}


class Answer(NamedTuple):
    """What a probe has found out."""

    reason: str | None
    """Why no link can be made, or None if the probe finds no reason."""
    bind: str = ""
    """The address and port from which Zenoh must connect; "" if the gate expects none."""


def ask(
    where: EndpointAddress, folder: Path | None, timeout_s: float, tell_port: bool = False
) -> Answer:  # fmt: skip
    """Probes an address. With `tell_port`, a gate is told from which port Zenoh will connect.
    Otherwise the gate lets in the whole address.
    """
    until, spoken = time.monotonic() + timeout_s, ""
    try:
        with socket.create_connection((where.host, where.port), timeout_s) as raw:
            if where.protocol == "tcp":
                return Answer(_probe_plain(raw))
            raw.settimeout(max(0.01, until - time.monotonic()))
            spoken = "; does it speak TLS?"
            with _context(folder).wrap_socket(raw, server_hostname=where.host) as link:
                if link.selected_alpn_protocol() == GATE:
                    return _announced(link, tell_port)
                return Answer(_said(link))
    except ssl.SSLCertVerificationError as error:
        # A node may send its CA's certificate along; OpenSSL then has other words.
        other_ca = error.verify_code in _OTHER_CA
        words = "unable to get local issuer certificate" if other_ca else error.verify_message
        return Answer(f"its certificate is refused: {words}")
    except ssl.SSLError as error:
        return Answer(_alert(error))
    except socket.gaierror:
        return Answer(f"the name {where.host} has no address")
    except TimeoutError:
        return Answer(f"no answer within {timeout_s:g} s{spoken}")
    except OSError as error:
        return Answer(ERRNOS.get(error.errno or 0, error.strerror or str(error)))


def _announced(link: ssl.SSLSocket, tell_port: bool) -> Answer:
    """Tells the gate from which port Zenoh will connect, and waits until the gate has noted it."""
    link.settimeout(ANSWER_S)
    port = 0
    if tell_port:
        with socket.socket(link.family) as spare:
            spare.bind(("", 0))
            port = spare.getsockname()[1]
    link.sendall(PORT.pack(port))
    answer = link.recv(1)
    if not answer:
        return Answer("it closed the connection after the TLS handshake")
    if answer == REVOKED:
        return Answer(ALERTS["CERTIFICATE_REVOKED"])
    if not port:
        return Answer(None)
    anywhere = "[::]" if link.family == socket.AF_INET6 else "0.0.0.0"
    return Answer(None, f"{anywhere}:{port}")


def _context(folder: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols([GATE])
    if folder is not None:
        ca, certificate, key = (folder / name for name in FILES)
        context.load_verify_locations(ca)
        context.load_cert_chain(certificate, key)
    return context


def _said(link: ssl.SSLSocket) -> str | None:
    """Returns how the other end rejects our certificate, or None if it accepts."""
    link.setblocking(False)
    until = time.monotonic() + ANSWER_S
    while (left_s := until - time.monotonic()) > 0:
        if not select.select([link], [], [], left_s)[0]:
            return None
        try:
            return None if link.recv(1) else "it closed the connection after the TLS handshake"
        except ssl.SSLWantReadError:
            if link.session is not None and link.session.has_ticket:
                return None
    return None


def _probe_plain(raw: socket.socket) -> str | None:
    """Sends two zero bytes. A port that expects TLS answers them with a TLS alert. Then the
    function returns an error that says so, otherwise None.
    """
    raw.settimeout(PLAIN_S)
    raw.sendall(b"\0\0")
    try:
        return "it expects TLS" if raw.recv(1) == TLS_ALERT else None
    except TimeoutError:
        return None


def _alert(error: ssl.SSLError) -> str:
    said = (error.reason or str(error)).upper()
    for word, text in ALERTS.items():
        if word in said:
            return text
    return f"TLS failed: {(error.reason or str(error)).replace('_', ' ').lower()}"
