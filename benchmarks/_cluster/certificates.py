"""Makes certificates for tests of the transport, as folders with ca.pem, cert.pem and key.pem."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Issuer:
    """A certificate authority (CA) whose key exists only in memory."""

    def __init__(self, name: str = "sparkle test CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        basic = x509.BasicConstraints(ca=True, path_length=None)
        usage = _usage(key_cert_sign=True, crl_sign=True)
        made = _builder(self._name, self._name, self._key, datetime.timedelta(days=30))
        made = made.add_extension(basic, critical=True).add_extension(usage, critical=True)
        self.pem = _pem(made.sign(self._key, hashes.SHA256()))

    def folder(
        self,
        where: Path,
        name: str,
        hosts: tuple[str, ...] = LOOPBACK,
        life: datetime.timedelta = datetime.timedelta(days=1),
        trusts: bytes | None = None,
        server: bool = True,
    ) -> Path:
        """Writes a folder with a certificate for `name`, and returns the folder's path. The file
        ca.pem holds this CA's certificate, or `trusts` (PEM) if that is given.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = _builder(subject, self._name, key, life)
        made = made.add_extension(x509.SubjectAlternativeName(map(_host, hosts)), critical=False)
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH] + [ExtendedKeyUsageOID.SERVER_AUTH] * server
        made = made.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        certificate = made.sign(self._key, hashes.SHA256())
        return _write(where, trusts or self.pem, _pem(certificate), key)


def self_signed(where: Path, trusts: bytes) -> Path:
    """Writes a folder with a certificate that is signed by its own key, and returns the folder's
    path.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "self")])
    made = _builder(subject, subject, key, datetime.timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName(map(_host, LOOPBACK)), critical=False)
    return _write(where, trusts, _pem(made.sign(key, hashes.SHA256())), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, life: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + life) - datetime.timedelta(hours=1))
        .not_valid_after(now + life)
    )


def _usage(**what: bool) -> x509.KeyUsage:
    names = "digital_signature content_commitment key_encipherment data_encipherment key_agreement"
    names += " key_cert_sign crl_sign encipher_only decipher_only"
    return x509.KeyUsage(**{**dict.fromkeys(names.split(), False), **what})


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write(where: Path, ca: bytes, certificate: bytes, key: ec.EllipticCurvePrivateKey) -> Path:
    where.mkdir(mode=0o700, parents=True, exist_ok=True)
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    for name, text in (("ca.pem", ca), ("cert.pem", certificate), ("key.pem", secret)):
        (where / name).write_bytes(text)
        (where / name).chmod(0o600)
    return where
