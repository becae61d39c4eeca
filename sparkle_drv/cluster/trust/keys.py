"""The keys that a handshake makes."""

from __future__ import annotations

from dataclasses import dataclass

from sparkle_drv.cluster.wire.seal import Opener, Sealer


@dataclass(frozen=True)
class Keys:
    """One end's keys of one session, and the other end's identity."""

    session: bytes
    """The session's number, 16 random bytes, which every frame names."""
    epoch: int
    """A number of the node's process, new after each start."""
    outgoing: Sealer
    """Encrypts this end's frames."""
    incoming: Opener
    """Verifies and decrypts the other end's frames."""
    peer: str = ""
    """The other end's name, from its certificate."""
    trusted: str = ""
    """SHA-256 of the other end's public key in hex, which `--trust-code` compares."""
    role: str = ""
    """The other end's role, from its certificate: "client" or "node"."""
