"""What a handshake ends with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Keys:
    """Of one session; both ends have the same."""

    session: bytes
    """Its number, 16 random bytes, which every frame names."""
    epoch: int
    """The node process's own number: another one after each start."""
    to_node: bytes
    """32 bytes: the MAC key of what the client sends."""
    to_client: bytes
    """32 bytes: of what the node sends."""
    seal: bool = False
    """Are payloads encrypted, too, by AES-256-GCM under keys derived from these?"""
    peer: str = ""
    """The other end's name as its certificate has it."""
    trusted: str = ""
    """SHA-256 of the other end's public key in hex: what `--trust-code` compares."""
    role: str = ""
    """The other end's, as its certificate has it: "client" or "node"."""
