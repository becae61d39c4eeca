"""Statistics of samples: median, its interval from order statistics, the difference of two sets.

Times have long tails, so no distribution is assumed. Pure; needs only numpy. Called wherever
samples become a figure.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from _console.problems import UsageError

Floats = npt.NDArray[np.float64]
# The smallest and the largest of n samples enclose the median with probability 1 - 2 * 0.5**n. From
# n = 6 on, that is at least 95 %.
FEWEST_FOR_INTERVAL = 6
# Number of blocks into which the samples of a row are cut. Each block counts as one independent
# sample, because adjacent samples of one process are not independent.
BLOCKS = 20


@dataclass(frozen=True)
class Summary:
    """The median of n samples and its 95 % interval. With n < 6, `low` and `high` are the smallest
    and the largest sample.
    """

    median: float
    low: float
    high: float
    n: int

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval, divided by the median. Infinite with too few samples
        for an interval, or if the median is not positive.
        """
        if self.n < FEWEST_FOR_INTERVAL or self.median <= 0:
            return math.inf
        return (self.high - self.low) / 2 / self.median


@lru_cache(maxsize=1024)
def interval_ranks(n: int) -> tuple[int, int]:
    """Returns the zero-based ranks (low, high) of the order statistics that hold the median with at
    least 95 %.

    With X ~ Binomial(n, 1/2), the interval from the r-th smallest to the r-th largest misses the
    median with probability 2 P(X < r). r is the largest one-based rank with P(X < r) <= 2.5 %:
    exact up to 1000 samples, above that by the normal approximation.
    """
    if n < FEWEST_FOR_INTERVAL:
        return 0, max(n - 1, 0)
    if n > 1000:
        r = math.floor((n - 1.96 * math.sqrt(n)) / 2)
        return r - 1, n - r
    tail, r = 0.0, 0
    while True:
        tail += math.exp(
            math.lgamma(n + 1) - math.lgamma(r + 1) - math.lgamma(n - r + 1) - n * math.log(2)
        )
        if tail > 0.025:
            return r - 1, n - r
        r += 1


def summarize(samples: npt.ArrayLike) -> Summary:
    """Returns the median and the 95 % interval of at least one sample."""
    ordered = np.sort(np.asarray(samples, dtype=np.float64))
    if ordered.size == 0:
        raise ValueError("summarize: expected at least one sample, got none")
    low, high = interval_ranks(int(ordered.size))
    return Summary(
        float(np.median(ordered)), float(ordered[low]), float(ordered[high]), int(ordered.size)
    )


def spread(samples: npt.ArrayLike) -> float:
    """Returns the distance between the quartiles, divided by the median. A tail of the distribution
    does not change this figure; a second peak of the distribution does.
    """
    low, middle, high = np.quantile(np.asarray(samples, dtype=np.float64), [0.25, 0.5, 0.75])
    return float((high - low) / middle) if middle > 0 else math.inf


def blocks(values: npt.ArrayLike) -> Floats:
    """Cuts the values into BLOCKS blocks of consecutive values and returns the median of each. A
    disturbance of many samples in a row then changes one median. With fewer than two values per
    block, returns the values unchanged.
    """
    every = np.asarray(values, dtype=np.float64)
    if every.size < 2 * BLOCKS:
        return every
    return np.array([np.median(part) for part in np.array_split(every, BLOCKS)])


def paired(a: npt.ArrayLike, b: npt.ArrayLike) -> Summary:
    """Returns the median and interval of the ratios a / b, round by round."""
    ratios = np.asarray(a, dtype=np.float64) / np.asarray(b, dtype=np.float64)
    return summarize(blocks(ratios))


def rounded(s: Summary) -> dict[str, float | int]:
    """Returns a summary of times in ns as the object that results files store."""
    return {
        "median": round(s.median, 3),
        "ci_low": round(s.low, 3),
        "ci_high": round(s.high, 3),
        "n": s.n,
    }


def mann_whitney(old: npt.ArrayLike, new: npt.ArrayLike) -> float:
    """Returns the two-sided p of Mann-Whitney's U test. Raises UsageError without scipy."""
    try:
        scipy_stats = importlib.import_module("scipy.stats")
    except ImportError as error:
        raise UsageError("compare needs scipy: pip install 'sparkle_drv[tools]'") from error
    return float(scipy_stats.mannwhitneyu(old, new, alternative="two-sided").pvalue)


def drift(samples: npt.ArrayLike) -> float:
    """Returns the median of the second half over the median of the first, minus 1. The drift shows
    a clock that falls, or another program that starts.
    """
    values = np.asarray(samples, dtype=np.float64)
    half = values.size // 2
    if half < FEWEST_FOR_INTERVAL:
        return 0.0
    first, second = float(np.median(values[:half])), float(np.median(values[half:]))
    return second / first - 1 if first > 0 else 0.0


def best_sustained(samples: npt.ArrayLike, run: int = 5) -> float:
    """Returns the lowest median of `run` consecutive samples: a time that was reached for a while,
    not once.
    """
    values = np.asarray(samples, dtype=np.float64)
    if values.size <= run:
        return float(np.median(values))
    windows = np.lib.stride_tricks.sliding_window_view(values, run)
    return float(np.median(windows, axis=1).min())


def ratio_interval(
    old: npt.ArrayLike, new: npt.ArrayLike, seed: int = 0, rounds: int = 1000
) -> tuple[float, float]:
    """Returns the 95 % bootstrap interval of median(new) / median(old). The same inputs give the
    same interval.
    """
    a, b = (np.asarray(s, dtype=np.float64) for s in (old, new))
    rng = np.random.default_rng(seed)
    ratios = resampled_medians(rng, b, rounds) / resampled_medians(rng, a, rounds)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(low), float(high)


def resampled_medians(rng: np.random.Generator, values: Floats, rounds: int) -> Floats:
    """Returns the medians of bootstrap resamples. Works in blocks, so that a long series does not
    need rounds * n doubles at once.
    """
    block = max(1, (1 << 20) // values.size)
    parts = [
        np.median(rng.choice(values, (min(block, rounds - at), values.size)), axis=1)
        for at in range(0, rounds, block)
    ]
    return np.concatenate(parts)
