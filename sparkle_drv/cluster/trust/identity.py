"""This machine's identity: its name, role, certificate and key, from SPARKLE_HOME/cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.transport import access

from . import certificates, files, requests
from .certificates import Subject
from .revocation import Revocations

_NONE = (
    "make a folder of certificates where the CA is, `sparkle certs client NAME --out DIR` or "
    "`sparkle certs node NAME HOST --out DIR`, and copy it here; "
    "`sparkle certs init` makes a CA of your own"
)
_NEW = "make a new certificate where the CA is: `sparkle certs renew`, or node, client or sign"


@dataclass(frozen=True)
class Identity:
    """A certificate and its private key. The CA `ca` has signed the certificate."""

    subject: Subject
    folder: Path
    """The folder of ca.pem, cert.pem and key.pem, which the engine reads itself."""
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    ca: x509.Certificate
    revoked: Revocations

    @property
    def name(self) -> str:
        return self.subject.name

    @property
    def common_name(self) -> str:
        """The certificate's common name, by which nodes know what it may do
        (transport/access.py).
        """
        return certificates.common_name(self.certificate)

    @property
    def role(self) -> str:
        return self.subject.role

    @property
    def der(self) -> bytes:
        """The certificate, encoded as DER."""
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the public key in hex, the same after a renewal."""
        return certificates.key_hash(self.key.public_key()).hex()


def load(home: str) -> Identity:
    """Loads the identity in this SPARKLE_HOME.

    Raises Refused if a file is missing or damaged, the certificate is of another CA, or it is not
    valid now. The error says which command to type.
    """
    identity = read(home)
    authentic = f"{identity.folder / files.CA}"
    certificates.timely(identity.ca, authentic, "set the clock, or make a new CA in another folder")
    own = str(identity.folder / files.CERTIFICATE)
    certificates.timely(identity.certificate, own, f"set the clock, or {_NEW}")
    if identity.common_name not in (
        access.CLIENTS if identity.role == "client" else [identity.role]
    ):
        raise Refused(
            f"{own}: expected a certificate with a common name of this version of sparkle_drv, "
            f"got {identity.common_name!r}: {_NEW}"
        )
    identity.revoked.check(identity.key.public_key(), own)
    return identity


def read(home: str) -> Identity:
    """Loads the identity as `load` does, but accepts an expired or revoked certificate."""
    folder = files.folder(home)
    if not any((folder / name).exists() for name in (files.CA, files.CERTIFICATE, files.KEY)):
        raise Refused(f"{folder}: expected certificates, got none: {_NONE}")
    ca = authority_of(folder)
    path = folder / files.CERTIFICATE
    certificate = _pem(path, _NONE)
    subject = certificates.signed(certificate, ca, str(path))
    key = requests.key_of(
        files.read(folder / files.KEY, _NONE, secret=True), str(folder / files.KEY)
    )
    if key.public_key() != certificate.public_key():
        raise Refused(
            f"{folder}: expected the key of {files.CERTIFICATE} in {files.KEY}, got another key: "
            f"copy both files from one folder, or {_NEW}"
        )
    return Identity(subject, folder, certificate, key, ca, Revocations(folder / files.REVOKED, ca))


def fingerprint_of(path: Path) -> str:
    """Returns the fingerprint of the key in a certificate file, as Identity.fingerprint does for an
    identity. Raises Refused for a missing file, one that has no certificate, and a key of another
    kind than P-256. Raises OSError if the file cannot be read.
    """
    found = _pem(path, f"{path}: expected a certificate, got no such file")
    try:
        return certificates.key_hash(certificates.of_p256(found.public_key())).hex()
    except ValueError as error:
        raise Refused(f"{path}: {error}") from None


def authority_of(folder: Path) -> x509.Certificate:
    """Returns the certificate of the CA that this machine trusts. Raises Refused if it is missing
    or damaged.
    """
    path = folder / files.CA
    ca = _pem(path, _NONE)
    try:
        ca.verify_directly_issued_by(ca)
        certificates.of_p256(ca.public_key())
        certificates.common_name(ca)
        constraints = ca.extensions.get_extension_for_class(x509.BasicConstraints).value
        if not constraints.ca:
            raise ValueError("expected the certificate of a CA, got another")
    except Exception as error:  # the exception's type depends on the version of cryptography
        raise Refused(
            f"{path}: expected the CA that `sparkle certs init` made, got another certificate"
        ) from error
    return ca


def _pem(path: Path, missing: str) -> x509.Certificate:
    data = files.read(path, missing)
    try:
        return x509.load_pem_x509_certificate(data)
    except Exception as error:  # the exception's type depends on the version of cryptography
        raise Refused(
            f"{path}: expected a certificate, got {len(data)} other bytes: {_NEW}"
        ) from error
