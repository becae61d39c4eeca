"""What all parts of benchmarks/mesh.py share: options, the type of results, and statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

KIB, MIB = 1 << 10, 1 << 20

Figures = dict[str, float | str]
"""A figure, or a text with several figures, by name."""


class Options(NamedTuple):
    """The options of mesh.py's command line, which say how much it measures."""

    sets: int
    """Number of sets of unequal ports, 0 or more."""
    simulate: bool
    """True: run the plans on simulated devices, too."""
    rounds: int
    """Number of timings of each side of a ratio, 1 or more."""
    devices: tuple[str, ...]
    """URIs of real devices."""


Section = Callable[[Options], Figures]


class Wrong(Exception):
    """Says that a result is wrong. Nothing is timed then."""


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Returns the median, and the order statistics that hold the true median with a probability of
    95 %.
    """
    ordered, n = sorted(values), len(values)
    below = max(0, math.floor(n / 2 - 0.98 * math.sqrt(n)))
    return ordered[below], median(ordered), ordered[n - 1 - below]


def told(values: Sequence[float]) -> str:
    """Returns the median and its interval as text."""
    low, middle, high = interval(values)
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"
