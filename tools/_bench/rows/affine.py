"""Fits T = alpha + beta * n: a transfer's fixed cost, and its cost per byte. Pure functions.

Times span four powers of ten, so the fit minimises the error relative to the time. A cache or
another program may disturb the times of one size. The loss is soft (soft L1), so that such a size
does not spoil the fit. Intervals come from a bootstrap over the samples. Called by transfer.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from _console.problems import UsageError

from . import stats

ROUNDS = 100
FAR_OFF = 0.1  # the fit weighs relative errors above this linearly, not by their square
NOTHING = 1e-3
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Fit:
    """A fit of time = alpha + beta * size to transfers: `alpha_ns` and `beta_ns_per_byte`, with
    their 95 % intervals. `worst` is the largest error at a measured size, relative to the time
    measured there.
    """

    alpha_ns: float
    alpha_interval: tuple[float, float]
    beta_ns_per_byte: float
    beta_interval: tuple[float, float]
    worst: float
    sizes: int

    @property
    def gbytes_per_s(self) -> float | None:
        """The rate that large transfers approach, in GB/s."""
        return 1 / self.beta_ns_per_byte if self.beta_ns_per_byte > 0 else None

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "gbytes_per_s": self.gbytes_per_s}


def fit(samples: Mapping[int, Sequence[float]], seed: int = 0) -> Fit | None:
    """Fits time = alpha + beta * size to the times of transfers. `samples` has the times in ns by
    size in bytes. Returns None for fewer than two sizes. The same samples and seed give the same
    fit. Raises UsageError without scipy.
    """
    if len(samples) < 2:
        return None
    sizes = np.array(sorted(samples), dtype=np.float64)
    every = [np.asarray(samples[int(n)], dtype=np.float64) for n in sizes]
    medians = np.array([np.median(values) for values in every])
    alpha, beta = line(sizes, medians)
    rng = np.random.default_rng(seed)
    again = np.column_stack([stats.resampled_medians(rng, values, ROUNDS) for values in every])
    lines = np.array([line(sizes, times) for times in again])
    low, high = np.quantile(lines, [0.025, 0.975], axis=0)
    worst = float(np.max(np.abs((alpha + beta * sizes) / medians - 1)))
    intervals = [(float(low[i]), float(high[i])) for i in (0, 1)]
    return Fit(alpha, intervals[0], beta, intervals[1], worst, len(sizes))


def line(sizes: Floats, times: Floats) -> tuple[float, float]:
    """Fits times = alpha + beta * sizes and returns (alpha, beta). Neither value is negative. The
    fit minimises the soft L1 loss of the relative errors.
    """
    try:
        optimize = importlib.import_module("scipy.optimize")
    except ImportError:
        raise UsageError("the fit needs scipy: pip install 'sparkle_drv[tools]'") from None
    # Scales both unknowns to about 1: alpha by the shortest time, beta by the quotient of the
    # longest time and the largest size.
    units = np.array([times.min(), times.max() / sizes.max()])
    matrix = np.column_stack([units[0] / times, units[1] * sizes / times])

    def errors(x: Floats) -> Floats:
        return matrix @ x - 1

    found = optimize.least_squares(
        errors, [0.5, 0.5], jac=lambda x: matrix, bounds=(0, np.inf), loss="soft_l1",
        f_scale=FAR_OFF,
    )  # fmt: skip
    alpha, beta = (float(value) for value in found.x * units)
    # The lower bound of alpha and beta is 0, but the solver stops slightly above it. A value that
    # is too small to change the time of any size therefore becomes 0.
    return (
        alpha if alpha > NOTHING * times.min() else 0.0,
        beta if beta * sizes.max() > NOTHING * times.max() else 0.0,
    )
