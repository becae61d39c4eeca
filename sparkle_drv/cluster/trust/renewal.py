"""Renews certificates, which are valid for a day. A new one has the same key, name, role and hosts.

On the machine with the CA, `renew` makes the certificate. On another machine, a session carries a
request to the CA's machine and the answer back. node/ and remote/ send the request when `due`
returns true.
"""

from __future__ import annotations

from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from sparkle_drv.cluster.refused import Refused

from . import authority, certificates, files, identity, messages, requests, revocation
from .authority import Authority
from .identity import Identity
from .messages import MessageField

LOOK_S = 60.0
"""Seconds between checks of a certificate; less if its remaining life is below ten times that."""

_REQUEST = {"request": MessageField(bytes, 1, certificates.MOST_NBYTES)}
_GRANT = {
    "certificate": MessageField(bytes, 1, certificates.MOST_NBYTES),
    "revoked": MessageField(bytes, 1, revocation.MOST_NBYTES),
}


def due(of: Identity) -> bool:
    """Returns whether at most a third of the certificate's life is left."""
    last = of.certificate.not_valid_after_utc
    return 3 * (last - certificates.now()) <= last - of.certificate.not_valid_before_utc


def look_s(of: Identity) -> float:
    """Returns the seconds until the next check of the certificate."""
    left_s = (of.certificate.not_valid_after_utc - certificates.now()).total_seconds()
    return min(LOOK_S, max(left_s / 10, 0.2)) if left_s > 0 else LOOK_S


def renew(of: Identity, days: float = 1) -> Identity:
    """Renews the certificate with the CA on this machine. Raises ValueError, OSError, and Refused,
    for example if the key is revoked.
    """
    ca = authority.load(str(of.folder.parent))
    ca.revoked.check(of.key.public_key(), f"renewal of {of.subject}")
    files.write(of.folder, ca.certify(of.subject, of.key.public_key(), days))
    return identity.load(str(of.folder.parent))


def renewal_request(of: Identity) -> dict[str, Any]:
    """Returns the request to send to a machine with the CA."""
    return {"request": requests.made(of.subject, of.key).public_bytes(Encoding.DER)}


def renewal_grant(ca: Authority, request: object, peer_name: str, peer_role: str) -> dict[str, Any]:
    """Answers the request of a peer whose name and role the handshake has proved. The new
    certificate has the same name, role, hosts and key. Raises Refused for a revoked key, and for a
    request that does not fit the last certificate of this key.
    """
    whose = f"renewal of {peer_role} {peer_name}"
    asked = messages.checked(request, _REQUEST, whose)["request"]
    of, key = requests.checked(asked, whose)
    ca.revoked.check(key, whose)
    known = ca.on_record(key)
    if known is None:
        raise Refused(f"{whose}: expected a key that the CA has certified, got another key")
    if of != known or (of.name, of.role) != (peer_name, peer_role):
        raise Refused(f"{whose}: expected a request for {known} with the same hosts, got {of}")
    made = ca.certify(of, key)
    certificate = x509.load_pem_x509_certificate(made[files.CERTIFICATE])
    return {
        "certificate": certificate.public_bytes(Encoding.DER), "revoked": made[files.REVOKED]
    }  # fmt: skip


def renewal_take(of: Identity, grant: object) -> Identity:
    """Checks a grant, then writes its certificate and revocation list, each file whole. Returns the
    renewed identity. Raises OSError if a file cannot be written. Raises Refused for a bad grant,
    and then changes nothing.
    """
    whose = f"renewal of {of.subject}"
    message = messages.checked(grant, _GRANT, whose)
    renewed = certificates.parsed(message["certificate"], whose)
    subject = certificates.signed(renewed, of.ca, whose)
    certificates.timely(renewed, whose, "set the clock")
    if subject != of.subject or renewed.public_key() != of.key.public_key():
        raise Refused(f"{whose}: expected a certificate for the same key and hosts, got another")
    if renewed.not_valid_after_utc < of.certificate.not_valid_after_utc:
        raise Refused(f"{whose}: expected a later certificate, got an earlier one")
    of.revoked.take(message["revoked"])
    files.write(of.folder, {files.CERTIFICATE: renewed.public_bytes(Encoding.PEM)})
    return identity.load(str(of.folder.parent))
