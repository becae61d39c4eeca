"""Three messages that prove both certificates and agree on the keys of a session.

    hello      the caller: versions, certificate, a fresh key share, the name of the wanted node
    welcome    the node: its versions, certificate and share, a session number, its signature
    proof      the caller: its signature

Each end signs its role and the hash of all that both ends have said so far, including both
certificates. Thus no signature can be reused in another handshake, for another peer, or in the
other direction. Fresh X25519 shares make the session's keys, so a certificate's key that leaks
later reveals no old session. The tag of the first frame proves that the other end has the session's
keys.

This module neither waits nor sends; channel/ does.
"""

from __future__ import annotations

import functools
import hashlib
import secrets
from dataclasses import dataclass
from typing import Any

import msgpack
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, x25519
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sparkle_drv import assets
from sparkle_drv.cluster.refused import Refused
from sparkle_drv.cluster.wire.seal import Opener, Sealer
from sparkle_drv.version import VERSION

from . import certificates, messages
from .certificates import Subject
from .identity import Identity
from .keys import Keys
from .messages import MessageField

PROTOCOL = 2
_LABEL = f"sparkle handshake {PROTOCOL} ".encode()
_BOTH = {
    "protocol": MessageField(int, 0, 1 << 31),
    "version": MessageField(str, 1, 32),
    "manifest": MessageField(bytes, 32, 32),
    "certificate": MessageField(bytes, 0, certificates.MOST_NBYTES),
    "share": MessageField(bytes, 32, 32),
    "nonce": MessageField(bytes, 32, 32),
    "clock": MessageField(int, 0, certificates.MOST_CLOCK),
}
HELLO = {**_BOTH, "node": MessageField(str, 1, 63)}
_SIGNATURE = MessageField(bytes, 8, 72)  # ECDSA over P-256, as DER
_SESSION = MessageField(bytes, 16, 16)
WELCOME = {
    **_BOTH, "session": _SESSION, "epoch": MessageField(int, 0, (1 << 63) - 1),
    "signature": _SIGNATURE,
}  # fmt: skip
PROOF = {"session": _SESSION, "signature": _SIGNATURE}


@dataclass(frozen=True)
class Pending:
    """The state that a node keeps from its welcome message until the client's proof arrives."""

    keys: Keys
    subject: Subject
    certified: ec.EllipticCurvePublicKey
    transcript: bytes


class Caller:
    """The client's end of one handshake. Raises Refused if it does not accept a message of the
    node. `messages.refusal` turns the exception into a message for the node.
    """

    def __init__(self, identity: Identity, node: str) -> None:
        """Prepares a handshake with `node`. Raises ValueError if `node` is not a valid name."""
        certificates.subject("node", node)
        self._identity, self._node = identity, node
        self._proven: tuple[object, dict[str, Any], Keys] | None = None
        self._share = x25519.X25519PrivateKey.generate()
        self._hello = {**_own(identity, self._share), "node": node}

    def hello(self) -> dict[str, Any]:
        """Returns the hello message. Each call returns the same message, so that it can be sent
        again.
        """
        return dict(self._hello)

    def prove(self, welcome: object) -> tuple[dict[str, Any], Keys]:
        """Checks the node's message `welcome`. Returns the proof message and the session's keys: if
        the same message comes again, the same objects. A second copy of the keys would use their
        nonces again.
        """
        if self._proven is not None and self._proven[0] == welcome:
            return self._proven[1:]
        whose = f"node {self._node}"
        if self._proven is not None:
            raise Refused(f"{whose}: expected one welcome of a handshake, got another one")
        received = _checked(welcome, WELCOME, whose, self._identity)
        subject, key = _certified(received, whose, self._identity)
        if subject.role != "node":
            raise Refused(f"{whose}: expected the certificate of a node, got that of {subject}")
        if subject.name != self._node:
            raise Refused(f"{whose}: expected its certificate, got that of {subject}")
        transcript = _hash(self._hello, {k: v for k, v in received.items() if k != "signature"})
        _verify(key, received["signature"], b"node", transcript, whose)
        whole = _hash(self._hello, received)
        session, epoch = received["session"], received["epoch"]
        to_node, to_client = _derived(self._share, received["share"], whole, whose)
        keys = Keys(
            session, epoch, Sealer(to_node, session, epoch), Opener(to_client),
            subject.name, certificates.key_hash(key).hex(), subject.role,
        )  # fmt: skip
        proof = {"session": keys.session, "signature": _sign(self._identity, b"client", whole)}
        self._proven = welcome, proof, keys
        return proof, keys


class Answerer:
    """The node's end of any number of handshakes; any thread may call it. It admits clients whose
    role is in `callers`. Raises Refused if it does not accept a client's message.
    """

    def __init__(
        self, identity: Identity, epoch: int, callers: tuple[str, ...] = ("client",)
    ) -> None:
        if identity.role != "node":
            raise Refused(
                f"{identity.folder}: expected the certificate of a node, got that of "
                f"{identity.subject}: type `sparkle certs node NAME HOST` where the CA is"
            )
        self._identity, self._epoch, self._callers = identity, epoch, callers

    def welcome(self, hello: object) -> tuple[dict[str, Any], Pending]:
        """Checks a client's message `hello`. Returns the welcome message, and the state to keep
        until the proof arrives.
        """
        received = _checked(hello, HELLO, "caller", self._identity)
        mine = self._identity
        if received["node"] != mine.name:
            raise Refused(f"caller: expected to find node {received['node']}, got node {mine.name}")
        subject, key = _certified(received, "caller", mine)
        if subject.role not in self._callers:
            raise Refused(
                f"caller: expected the certificate of a {' or '.join(self._callers)}, got that of "
                f"{subject}"
            )
        share, session = x25519.X25519PrivateKey.generate(), secrets.token_bytes(16)
        answer = {**_own(mine, share), "session": session, "epoch": self._epoch}
        answer["signature"] = _sign(mine, b"node", _hash(received, answer))
        whole = _hash(received, answer)
        to_node, to_client = _derived(share, received["share"], whole, "caller")
        keys = Keys(
            session, self._epoch, Sealer(to_client, session, self._epoch), Opener(to_node),
            subject.name, certificates.key_hash(key).hex(), subject.role,
        )  # fmt: skip
        return answer, Pending(keys, subject, key, whole)

    def admit(self, pending: Pending, proof: object) -> Keys:
        """Returns the session's keys if `proof` shows that the caller has the private key of its
        certificate. Raises Refused if not.
        """
        whose = str(pending.subject)
        said = messages.checked(proof, PROOF, whose)
        if said["session"] != pending.keys.session:
            raise Refused(f"{whose}: expected the proof of this session, got that of another one")
        _verify(pending.certified, said["signature"], b"client", pending.transcript, whose)
        self._identity.revoked.check(pending.certified, whose)
        return pending.keys


@functools.lru_cache(maxsize=1)
def manifest_hash() -> bytes:
    """Returns the SHA-256 of the kernels' manifest. Two ends with the same hash have the same
    kernels.
    """
    return hashlib.sha256((assets.folder("shaders") / "manifest.json").read_bytes()).digest()


def _own(identity: Identity, share: x25519.X25519PrivateKey) -> dict[str, Any]:
    return {
        "protocol": PROTOCOL,
        "version": VERSION,
        "manifest": manifest_hash(),
        "certificate": identity.der,
        "share": share.public_key().public_bytes_raw(),
        "nonce": secrets.token_bytes(32),
        "clock": int(certificates.now().timestamp()),
    }


def _checked(
    message: object, fields: dict[str, MessageField], whose: str, mine: Identity
) -> dict[str, Any]:
    """Returns the message's fields after comparing both ends' versions. Compares the protocol
    number first, since another protocol may have other fields.
    """
    messages.raise_if_refusal(message, whose)
    theirs = message.get("protocol") if type(message) is dict else None
    if type(theirs) is int and theirs != PROTOCOL and not _BOTH["protocol"].complaint(theirs):
        raise Refused(
            f"{whose}: speaks protocol {theirs}, {mine.name} speaks {PROTOCOL}: "
            "install one version of sparkle_drv on both"
        )
    received = messages.checked(message, fields, whose)
    if received["manifest"] != manifest_hash():
        raise Refused(
            f"{whose}: has the kernels {received['manifest'].hex()[:16]} of sparkle_drv "
            f"{received['version']}, {mine.name} has {manifest_hash().hex()[:16]} of {VERSION}: "
            "install one version on both"
        )
    return received


def _certified(
    message: dict[str, Any], whose: str, mine: Identity
) -> tuple[Subject, ec.EllipticCurvePublicKey]:
    """Verifies a certificate. Returns its subject and key. This does not prove that the sender has
    the private key: the handshake's signature does.
    """
    certificate = certificates.parsed(message["certificate"], whose)
    subject = certificates.signed(certificate, mine.ca, whose)
    certificates.timely(
        certificate,
        f"certificate of {subject}",
        "set the clocks, or renew the certificate",
        str(mine.subject),
        message["clock"],
    )
    key = certificates.of_p256(certificate.public_key())
    mine.revoked.check(key, str(subject))
    return subject, key


def _hash(*messages: dict[str, Any]) -> bytes:
    """Returns a hash of messages that is equal at both ends: fields are sorted by name, and encoded
    in one way.
    """
    packed = msgpack.packb([sorted(fields.items()) for fields in messages])
    return hashlib.sha256(packed).digest()


def _sign(identity: Identity, role: bytes, transcript: bytes) -> bytes:
    return identity.key.sign(_LABEL + role + transcript, ec.ECDSA(hashes.SHA256()))


def _verify(
    key: ec.EllipticCurvePublicKey, signature: bytes, role: bytes, transcript: bytes, whose: str
) -> None:
    try:
        key.verify(signature, _LABEL + role + transcript, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature as error:
        raise Refused(
            f"{whose}: expected a signature by its certificate's key, got another one"
        ) from error


def _derived(
    share: x25519.X25519PrivateKey, theirs: bytes, transcript: bytes, whose: str
) -> tuple[bytes, bytes]:
    """Derives the session's keys: for messages to the node, and for messages to the client."""
    try:
        secret = share.exchange(x25519.X25519PublicKey.from_public_bytes(theirs))
    except ValueError as error:  # a public key of small order would give a known secret
        raise Refused(f"{whose}: expected a share of a key exchange, got a bad one") from error
    made = HKDF(hashes.SHA256(), 64, transcript, _LABEL + b"keys").derive(secret)
    return made[:32], made[32:]
