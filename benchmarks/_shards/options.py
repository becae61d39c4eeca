"""What sections of shards.py are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from _mesh.figures import Figures


class Options(NamedTuple):
    """How much a section measures."""

    seeds: int
    """Drawn machines, 1 or more; of calls in which a device stops a tenth of that."""
    rounds: int
    """Times that each side of a ratio is timed, 1 or more."""
    side: int
    """Of the matrices of real products, 64 or more."""


Section = Callable[[Options], Figures]
