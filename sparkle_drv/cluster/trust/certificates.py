"""The content of a certificate: role, name, hosts; whether a CA signed it, and whether it is valid.

Role and name form one URI among the certificate's alternative names, such as `sparkle:node/box1`.
Certificates of peers are untrusted input: their names are read only after the CA's signature is
verified.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from dataclasses import dataclass
from datetime import datetime, timezone

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sparkle_drv.cluster.refused import Refused

ROLES = ("node", "client", "router")
MOST_NBYTES = 4096
"""Bytes of a certificate or a request in DER, at most."""
MOST_HOSTS = 16
MOST_CLOCK = 253_402_300_799
"""Seconds since 1970 at the end of the year 9999, the last one of `datetime`."""
_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_URI = "sparkle:"


@dataclass(frozen=True)
class Subject:
    """The owner that a certificate names: role, name, hosts."""

    role: str
    name: str
    hosts: tuple[str, ...] = ()
    """Sorted addresses and host names beside `name`, for TLS to compare. () for clients."""

    def __str__(self) -> str:
        return f"{self.role} {self.name}"


def subject(role: str, name: str, hosts: tuple[str, ...] = ()) -> Subject:
    """Returns a Subject with sorted hosts. Raises ValueError for a wrong role, name or host."""
    if role not in ROLES:
        raise ValueError(f"role: expected {', '.join(ROLES)}, got {role!r}")
    if not _NAME.fullmatch(name) or len(name) > 63:
        raise ValueError(
            f"name: expected up to 63 lower-case letters, digits, hyphens and dots, got {name!r}"
        )
    if hosts and role == "client":
        raise ValueError(f"hosts: expected none for a client, which never listens, got {hosts[0]}")
    if len(hosts) > MOST_HOSTS:
        raise ValueError(f"hosts: expected at most {MOST_HOSTS}, got {len(hosts)}")
    return Subject(role, name, tuple(sorted({_host(host) for host in hosts} - {name})))


def _host(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        known = text.lower()
    if not _NAME.fullmatch(known) or len(known) > 253:
        raise ValueError(f"host: expected an IP address or a host name, got {text!r}")
    return known


def names(of: Subject) -> x509.SubjectAlternativeName:
    """Returns the alternative names for a certificate or a request."""
    alternatives: list[x509.GeneralName] = [
        x509.UniformResourceIdentifier(f"{_URI}{of.role}/{of.name}")
    ]
    if of.role != "client":
        alternatives.append(x509.DNSName(of.name))
    for host in of.hosts:
        try:
            alternatives.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            alternatives.append(x509.DNSName(host))
    return x509.SubjectAlternativeName(alternatives)


def subject_of(extensions: x509.Extensions) -> Subject:
    """Returns the Subject that the alternative names state. Raises ValueError or an exception of
    x509 for names that this package does not write.
    """
    alternatives = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    (uri,) = alternatives.get_values_for_type(x509.UniformResourceIdentifier)
    role, _, name = uri.removeprefix(_URI).partition("/")
    hosts = (
        *alternatives.get_values_for_type(x509.DNSName),
        *(str(address) for address in alternatives.get_values_for_type(x509.IPAddress)),
    )
    return subject(role, name, hosts)


def parsed(der: bytes, whose: str) -> x509.Certificate:
    """Parses a certificate in DER. Raises Refused if the bytes are empty or no certificate."""
    if not der:
        raise Refused(f"{whose}: expected a certificate, got none")
    try:
        return x509.load_der_x509_certificate(der)
    except Exception as error:  # the exception's type depends on the version of cryptography
        raise Refused(f"{whose}: expected a certificate, got {len(der)} other bytes") from error


def signed(certificate: x509.Certificate, ca: x509.Certificate, whose: str) -> Subject:
    """Verifies the CA's signature, and returns the certificate's subject. Raises Refused if another
    CA signed the certificate, or if it is not one of this package.
    """
    try:
        certificate.verify_directly_issued_by(ca)
    except Exception as error:  # the exception's type depends on the version of cryptography
        raise Refused(f"{whose}: {_stranger(certificate, ca)}") from error
    try:
        of_p256(certificate.public_key())
        return subject_of(certificate.extensions)
    except Exception as error:  # the CA signed a certificate that authority.py did not make
        raise Refused(
            f"{whose}: expected a certificate of a {' or '.join(ROLES)}, got another one"
        ) from error


def _stranger(certificate: x509.Certificate, ca: x509.Certificate) -> str:
    wanted = f"expected a certificate signed by {common_name(ca)}"
    try:
        if certificate.issuer == certificate.subject:
            return f"{wanted}, got a self-signed one"
        issuer = common_name(certificate, issuer=True)
    except Exception:  # the exception's type depends on the version of cryptography
        return f"{wanted}, got one of an unreadable CA"
    return f"{wanted}, got one of another CA" + (f", {issuer}" if issuer.isprintable() else "")


def common_name(certificate: x509.Certificate, issuer: bool = False) -> str:
    """Returns the common name of the subject or issuer. Raises exceptions of x509 or ValueError for
    a certificate that this package did not make.
    """
    name = certificate.issuer if issuer else certificate.subject
    (found,) = name.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(found.value)[:64]


def of_p256(key: object) -> ec.EllipticCurvePublicKey:
    """Returns the key if it is a P-256 key, the only kind that this package makes. Raises
    ValueError for another key.
    """
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return key
    raise ValueError(f"expected a P-256 key, got {type(key).__name__}")


def key_hash(key: ec.EllipticCurvePublicKey) -> bytes:
    """Returns the SHA-256 of the public key. A renewal keeps the key and so the hash. Revocation
    and `--trust-code` use the hash.
    """
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).digest()


def now() -> datetime:
    """Returns the time of this machine's clock."""
    return datetime.now(timezone.utc)


def written(when: datetime) -> str:
    """Formats a time as text, to the second."""
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"


def timely(
    certificate: x509.Certificate,
    whose: str,
    advice: str,
    reader: str = "this machine",
    theirs: int | None = None,
) -> None:
    """Raises Refused if the certificate is expired or not yet valid by this machine's clock.
    `reader` names this machine. `theirs` is the sender's clock, in seconds since 1970.
    """
    here = now()
    first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if first <= here <= last:
        return
    if here > last:
        bound = f"has expired at {written(last)}"
    else:
        bound = f"is not valid before {written(first)}"
    clocks = f"clock of {reader}: {written(here)}"
    if theirs is not None:
        clocks += f", of its sender: {written(_since_1970(theirs))}"
    raise Refused(f"{whose}: the certificate {bound}; {clocks}: {advice}")


def _since_1970(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)
