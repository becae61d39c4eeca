"""The keys that a handshake makes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Keys:
    """The keys of one session; both ends have the same."""

    session: bytes
    """The session's number, 16 random bytes, which every frame names."""
    epoch: int
    """A number of the node's process, new after each start."""
    to_node: bytes
    """MAC key of the client's frames, 32 bytes."""
    to_client: bytes
    """MAC key of the node's frames, 32 bytes."""
    seal: bool = False
    """Are payloads also encrypted, by AES-256-GCM with keys derived from these?"""
    peer: str = ""
    """The other end's name, from its certificate."""
    trusted: str = ""
    """SHA-256 of the other end's public key in hex, which `--trust-code` compares."""
    role: str = ""
    """The other end's role, from its certificate: "client" or "node"."""
