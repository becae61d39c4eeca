"""A machine's private key, which stays on the machine, and requests for a certificate (CSRs)."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from sparkle_drv.cluster.refused import Refused

from . import certificates, files
from .certificates import Subject


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_file(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Returns the key as PEM, without a password."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def key_of(pem: bytes, whose: str) -> ec.EllipticCurvePrivateKey:
    """Returns the private key in a PEM. Raises Refused for other content."""
    try:
        key = load_pem_private_key(pem, None)
    except Exception as error:  # the exception's type depends on the version of cryptography
        raise Refused(f"{whose}: expected a private key without a password, got none") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise Refused(f"{whose}: expected a P-256 key, got another kind")
    return key


def begun(folder: Path, of: Subject) -> str:
    """Writes a request beside the key in this folder. Makes the key if there is none. Returns the
    key's fingerprint. Raises OSError, and Refused if the key file has no valid key.
    """
    path = folder / files.KEY
    if path.exists():
        key = key_of(files.read(path, secret=True), str(path))
    else:
        key = new_key()
        files.write(folder, {files.KEY: key_file(key)})
    files.write(folder, {files.REQUEST: made(of, key).public_bytes(Encoding.PEM)})
    return certificates.key_hash(key.public_key()).hex()


def made(of: Subject, key: ec.EllipticCurvePrivateKey) -> x509.CertificateSigningRequest:
    """Makes a request for a certificate of the subject `of`, signed with `key`."""
    return (
        x509.CertificateSigningRequestBuilder()
        .subject_name(common_name(of.name))
        .add_extension(certificates.names(of), critical=False)
        .sign(key, hashes.SHA256())
    )


def common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def checked(data: bytes, whose: str) -> tuple[Subject, ec.EllipticCurvePublicKey]:
    """Returns the subject and key of a request in PEM or DER. Raises Refused for a damaged request,
    or if its sender does not have the key.
    """
    try:
        if data.startswith(b"-----"):
            request = x509.load_pem_x509_csr(data)
        else:
            request = x509.load_der_x509_csr(data)
        if not request.is_signature_valid:
            raise ValueError("expected a signature by the request's key, got another")
        return certificates.subject_of(request.extensions), certificates.of_p256(
            request.public_key()
        )
    except Exception as error:  # an exception of any type: the request is untrusted input
        raise Refused(
            f"{whose}: expected a request of `sparkle certs request`, got another one or a "
            "damaged one"
        ) from error
