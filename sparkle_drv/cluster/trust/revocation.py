"""The signed list of keys that are refused although their certificates are still valid.

It lists public keys, which renewals keep, so that one entry refuses every certificate of a key. The
list has a number, `count`, which grows with each change. No list is replaced by one with a lower
`count`, so that an old copy cannot restore a key.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass
from pathlib import Path

import msgpack
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from sparkle_drv import saved_files
from sparkle_drv.cluster.refused import Refused

from . import certificates, files

MOST_NBYTES = 1 << 16
"""Bytes of a list at most: room for 1,900 keys."""
_LABEL = b"sparkle revocation 1\0"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Listed:
    """The content of one revocation list."""

    count: int = 0
    keys: frozenset[bytes] = frozenset()
    """`certificates.key_hash` of each key."""


def packed(listed: Listed, key: ec.EllipticCurvePrivateKey) -> bytes:
    """Packs and signs a list with the CA's key. Raises ValueError if the list is too long."""
    body = msgpack.packb([listed.count, sorted(listed.keys)])
    made: bytes = msgpack.packb([body, key.sign(_LABEL + body, ec.ECDSA(hashes.SHA256()))])
    if len(made) > MOST_NBYTES:
        raise ValueError(f"revocation list: expected at most {MOST_NBYTES} bytes, got {len(made)}")
    return made


def unpacked(data: bytes, ca: x509.Certificate, whose: str) -> Listed:
    """Returns the content of a signed list. Raises Refused if the list is damaged or not signed by
    the CA.
    """
    if len(data) > MOST_NBYTES:
        raise Refused(f"{whose}: expected at most {MOST_NBYTES} bytes, got {len(data)}")
    try:
        body, signature = msgpack.unpackb(data)
        public = certificates.of_p256(ca.public_key())
        public.verify(signature, _LABEL + body, ec.ECDSA(hashes.SHA256()))
        count, keys = msgpack.unpackb(body)
        return Listed(count, frozenset(keys))
    except (ValueError, TypeError, InvalidSignature, msgpack.UnpackException) as error:
        raise Refused(
            f"{whose}: expected a revocation list signed by {certificates.common_name(ca)}, "
            "got another one or a damaged one"
        ) from error


class Revocations:
    """The revocation list in a file, read again when the file changes. Any thread may use it."""

    def __init__(self, path: Path, ca: x509.Certificate) -> None:
        """Reads the list. Raises Refused for a file without a list. Without a file nothing is
        revoked.
        """
        self.path, self._ca = path, ca
        self._lock = threading.Lock()
        self._seen: object = None
        self._known = Listed()
        self._read()

    @property
    def listed(self) -> Listed:
        """The newest list. A file that becomes damaged or older does not replace it."""
        with self._lock:
            try:
                self._read()
            except Refused as error:
                _LOG.warning("%s; the list known before stays in force", error)
            return self._known

    def has(self, key: ec.EllipticCurvePublicKey) -> bool:
        """Returns whether this key is revoked."""
        return certificates.key_hash(key) in self.listed.keys

    def has_certificate(self, der: bytes) -> bool:
        """Returns whether the key of this certificate, encoded as DER, is revoked. A certificate
        that cannot be read counts as revoked.
        """
        try:
            key = certificates.of_p256(x509.load_der_x509_certificate(der).public_key())
        except Exception:  # the exception's type depends on the version of cryptography
            return True
        return self.has(key)

    def check(self, key: ec.EllipticCurvePublicKey, whose: str) -> None:
        """Raises Refused for a revoked key."""
        if self.has(key):
            raise Refused(f"{whose}: the certificate is revoked")

    def take(self, data: bytes) -> bool:
        """Stores a list that another machine sent. Returns False if the list is not newer. Raises
        Refused for a damaged list or one that the CA did not sign, and OSError if the list cannot
        be stored.
        """
        offered = unpacked(data, self._ca, "revocation list").count
        with saved_files.locked(self.path):
            if offered <= self.listed.count:
                return False
            saved_files.replace(self.path, data, sync=True)
        return True

    def add(self, keys: frozenset[bytes], ca_key: ec.EllipticCurvePrivateKey) -> None:
        """Adds these keys to the revoked ones. Raises OSError, and ValueError if the list
        is full.
        """
        with saved_files.locked(self.path):
            old = self.listed
            data = packed(Listed(old.count + 1, old.keys | keys), ca_key)
            saved_files.replace(self.path, data, sync=True)

    def _read(self) -> None:
        try:
            found = os.stat(self.path)
            seen = (found.st_mtime_ns, found.st_size, found.st_ino)
            if seen == self._seen:
                return
            self._seen = seen
        except OSError:
            return
        read = unpacked(files.read(self.path), self._ca, str(self.path))
        if read.count > self._known.count:
            self._known = read
