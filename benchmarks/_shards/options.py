"""The options that every measurement of benchmarks/shards.py gets, and the type of such a
measurement.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from _mesh.figures import Figures


class Options(NamedTuple):
    """The options of shards.py's command line, which say how much it measures."""

    seeds: int
    """Number of random machines, 1 or more. In a tenth as many calls, a device stops."""
    rounds: int
    """Number of timings of each side of a ratio, 1 or more."""
    side: int
    """The side of the matrices of real products, 64 or more."""


Section = Callable[[Options], Figures]
