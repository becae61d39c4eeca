"""How a call is to be divided among devices, as its caller said: checked, as data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .arguments import proportions

COMBINES = ("none", "sum")
TOPOLOGIES = ("single", "mesh")


@dataclass(frozen=True)
class Terms:
    """How a call is to be divided, as the caller said."""

    shares: str | Mapping[str, float] = "auto"
    """How to share: "auto" (the planner may leave devices out), "each" (all take part), or
    proportions by URI."""
    max_vram_nbytes: int = 0
    """Bytes that a device with memory of its own may use. 0: all that it has."""
    prefer_p2p: bool = True
    """Whether an operand may come from another device that has it."""
    combine: str = "none"
    """One of COMBINES: "sum" cuts the summed axis of a product, and adds partial results."""

    @property
    def key(self) -> tuple[Any, ...]:
        """All fields as a hashable value, which is part of the key of a kept plan."""
        said = self.shares if isinstance(self.shares, str) else tuple(self.shares.items())
        return said, self.max_vram_nbytes, self.prefer_p2p, self.combine

    @property
    def is_auto(self) -> bool:
        """Whether the planner may leave devices out."""
        return self.shares == "auto"


def terms(
    shares: Any, max_vram_gb: Any, prefer_p2p: bool, combine: str, uri_of: Callable[[str], str]
) -> Terms:
    """Returns how a call is to be divided. `uri_of` returns the URI of a device by any of its
    names.

    Raises TypeError for an argument of a wrong type. Raises ValueError for unknown words or
    devices, for shares that give no proportions, and for a `max_vram_gb` that is not above 0.
    """
    limit = 0
    if max_vram_gb is not None:
        if isinstance(max_vram_gb, bool) or not isinstance(max_vram_gb, (int, float)):
            raise TypeError(f"max_vram_gb: expected a number of 10^9 bytes, got {max_vram_gb!r}")
        if not 0 < max_vram_gb < math.inf:
            raise ValueError(f"max_vram_gb: expected more than 0, got {max_vram_gb!r}")
        limit = max(1, int(max_vram_gb * 1e9))
    if isinstance(shares, Mapping):
        parts = proportions({uri_of(uri): share for uri, share in shares.items()})
        return Terms(parts, limit, prefer_p2p, combine)
    if not isinstance(shares, str):
        raise TypeError(f"shards: expected 'auto', 'each' or shares by URI, got {shares!r}")
    return Terms(word("shards", shares, ("auto", "each")), limit, prefer_p2p, combine)


def word(name: str, text: Any, words: Sequence[str]) -> str:
    """Returns `text` if it is one of these words. Raises ValueError otherwise."""
    if text not in words:
        expected = " or ".join(repr(known) for known in words)
        raise ValueError(f"{name}: expected {expected}, got {text!r}")
    return str(text)
