"""The CA: makes certificates, signs requests, and revokes keys. `sparkle certs` calls it.

The CA's folder has the CA's key and, in issued/, the newest certificate of every key that the CA
ever signed. Revocation and renewal read these certificates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.transport import access

from . import certificates, files, requests, revocation
from .certificates import Subject
from .identity import authority_of

CA_DAYS = 3652
MOST_DAYS = 90
"""Longest validity of a certificate. A few days suffice, since certificates renew themselves."""
EARLY = timedelta(minutes=5)
"""Certificates are valid from this long ago, since the clocks of two machines differ."""


class Authority:
    """A CA and its folder."""

    def __init__(
        self, folder: Path, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate
    ) -> None:
        self.folder, self.certificate, self._key = folder, certificate, key
        self.name = certificates.common_name(certificate)
        self.revoked = revocation.Revocations(folder / files.REVOKED, certificate)

    def issue(
        self, name: str, role: str, hosts: tuple[str, ...] = (), days: float = 1
    ) -> dict[str, bytes]:
        """Makes a new key and its certificate. Returns the files for the machine `name`: key,
        certificate, CA certificate, revocation list. Raises ValueError for a wrong role, name, host
        or number of days.
        """
        of, key = certificates.subject(role, name, hosts), requests.new_key()
        return {files.KEY: requests.key_file(key), **self.certify(of, key.public_key(), days)}

    def sign(self, request: bytes, days: float = 1) -> tuple[Subject, dict[str, bytes]]:
        """Signs a request. Returns the request's subject, and the files for the subject's machine
        except its key. Raises Refused for a damaged request or a revoked key, and what `certify`
        raises.
        """
        of, key = requests.checked(request, "request")
        self.revoked.check(key, f"request of {of}")
        return of, self.certify(of, key, days)

    def certify(
        self, of: Subject, key: ec.EllipticCurvePublicKey, days: float = 1
    ) -> dict[str, bytes]:
        """Makes and records a certificate for a key. Returns the files that the key's owner needs.

        Raises ValueError, for example if a subject of another role has this name. TLS compares only
        names, so two roles must not share a name.
        """
        if self.on_record(key) is None:
            for known, made in self.issued():
                used = known.name == of.name and known.role != of.role
                if used and not self.revoked.has(certificates.of_p256(made.public_key())):
                    raise ValueError(
                        f"name: expected one that no other role has, got that of {known}: "
                        "take another name, or revoke that one first"
                    )
        pem = self._certificate(of, key, days).public_bytes(Encoding.PEM)
        files.write(self.folder / files.ISSUED, {_record(key): pem})
        return {
            files.CA: self.certificate.public_bytes(Encoding.PEM),
            files.REVOKED: files.read(self.folder / files.REVOKED, "copy it from a backup"),
            files.CERTIFICATE: pem,
        }

    def issued(self) -> Iterator[tuple[Subject, x509.Certificate]]:
        """Yields the newest certificate of every key, with its subject. Raises Refused for a
        damaged file.
        """
        for path in sorted((self.folder / files.ISSUED).glob("*.pem")):
            yield self._recorded(path)

    def on_record(self, key: ec.EllipticCurvePublicKey) -> Subject | None:
        """Returns the subject of this key's newest certificate, or None if the key never
        had one.
        """
        path = self.folder / files.ISSUED / _record(key)
        return self._recorded(path)[0] if path.exists() else None

    def _recorded(self, path: Path) -> tuple[Subject, x509.Certificate]:
        try:
            made = x509.load_pem_x509_certificate(files.read(path))
        except ValueError as error:
            raise Refused(f"{path}: expected a certificate, got other bytes") from error
        return certificates.signed(made, self.certificate, str(path)), made

    def revoke(self, name: str) -> list[Subject]:
        """Revokes every key that was ever certified for this name. Raises ValueError if
        no key was.
        """
        certified = [(of, certificate) for of, certificate in self.issued() if of.name == name]
        if not certified:
            known = ", ".join(sorted({of.name for of, _ in self.issued()})) or "none"
            raise ValueError(f"name: expected one with a certificate ({known}), got {name}")
        keys = (certificates.of_p256(certificate.public_key()) for _, certificate in certified)
        self.revoked.add(frozenset(map(certificates.key_hash, keys)), self._key)
        return [of for of, _ in certified]

    def _common_name(self, of: Subject) -> str:
        """Returns the common name that access rules use. Each client has one of its own while any
        of its certificates is valid. Raises ValueError if others have all common names.
        """
        if of.role != "client":
            return of.role
        owners = {
            certificates.common_name(made): known.name
            for known, made in self.issued()
            if known.role == "client" and made.not_valid_after_utc >= certificates.now()
        }
        # Starts at a hash of the name, so that a CA whose records are lost chooses the same ones.
        first = hashlib.sha256(of.name.encode()).digest()[0] % len(access.CLIENTS)
        ordered = access.CLIENTS[first:] + access.CLIENTS[:first]
        for name in ordered:
            if owners.get(name) == of.name:
                return name
        for name in ordered:
            if name not in owners:
                return name
        raise ValueError(
            f"client: expected at most {len(access.CLIENTS)} clients with valid certificates, got "
            "one more: wait until certificates expire"
        )

    def _certificate(
        self, of: Subject, key: ec.EllipticCurvePublicKey, days: float
    ) -> x509.Certificate:
        if not 0 < days <= MOST_DAYS:
            raise ValueError(f"days: expected more than 0, at most {MOST_DAYS}, got {days:g}")
        start = certificates.now()
        certificates.timely(self.certificate, "the CA", "set the clock, or make a new CA")
        end = min(start + timedelta(days=days), self.certificate.not_valid_after_utc)
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if of.role != "client":
            uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
        issuer = certificates.of_p256(self.certificate.public_key())
        return (
            _builder(requests.common_name(self._common_name(of)), key)
            .issuer_name(self.certificate.subject)
            .not_valid_before(start - EARLY)
            .not_valid_after(end)
            .add_extension(certificates.names(of), critical=False)
            .add_extension(x509.BasicConstraints(False, None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(_usage(sign_certificates=False), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )


def init(home: str) -> Authority:
    """Makes a CA. Raises FileExistsError if the folder has one already, and OSError."""
    folder = files.folder(home)
    for path in (folder / files.CA, folder / files.CA_KEY):
        if path.exists():
            raise FileExistsError(f"{path}: expected a folder without a CA, got one with a CA")
    key, start = requests.new_key(), certificates.now()
    name = requests.common_name(f"sparkle CA {certificates.key_hash(key.public_key()).hex()[:16]}")
    certificate = (
        _builder(name, key.public_key())
        .issuer_name(name)
        .not_valid_before(start - EARLY)
        .not_valid_after(start + timedelta(days=CA_DAYS))
        .add_extension(x509.BasicConstraints(True, 0), critical=True)
        .add_extension(_usage(sign_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    files.write(
        folder,
        {
            files.CA_KEY: requests.key_file(key),
            files.REVOKED: revocation.packed(revocation.Listed(1), key),
            files.CA: certificate.public_bytes(Encoding.PEM),
        },
    )
    return Authority(folder, key, certificate)


def load(home: str) -> Authority:
    """Loads the CA in this SPARKLE_HOME. Raises Refused if a file is missing or damaged."""
    folder = files.folder(home)
    here = "this is done where the CA is; `sparkle certs init` makes a CA of your own"
    pem = files.read(folder / files.CA_KEY, here, secret=True)
    key, certificate = requests.key_of(pem, str(folder / files.CA_KEY)), authority_of(folder)
    if key.public_key() != certificate.public_key():
        raise Refused(f"{folder}: expected the key of {files.CA} in {files.CA_KEY}, got another")
    return Authority(folder, key, certificate)


def _record(key: ec.EllipticCurvePublicKey) -> str:
    return f"{certificates.key_hash(key).hex()}.pem"


def _builder(name: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
