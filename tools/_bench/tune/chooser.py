"""Chooses which point of a sweep to try next. A statistical model of the costs so far
(surrogate.py) shows where a better point may be.

Each point is one allowed combination of the axes' values, which are numbers or words. The first
point comes first, then some that are far from each other. After them comes the point with the
largest expected improvement of the logarithm of the cost (Jones, Schonlau and Welch, 1998). Every
other time, only points that differ from the best on a single axis are considered: where costs
change abruptly, the model is wrong about farther points. No point comes twice. Pure. Called by
sweep_search.py.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from _bench.jobs.axes import Value

from .surrogate import Floats, Surrogate

FEWEST_FIRST = 8
CANDIDATES = 2000  # largest number of points whose costs the Gaussian process predicts at once
# The part of a log cost that exceeds the best one by more than KNEE enters the fit as a logarithm,
# because the exact cost of a bad point says little.
KNEE = 0.5
# mean of the prior of log(length scale) of a feature that combines two columns: long, because most
# combinations change the cost little
PAIR = 1.5
_NUMBERS = re.compile(r"\d+(x\d+)+")


class Chooser:
    """Chooses points one at a time: `ask` returns a point, `tell` gets the point's cost."""

    def __init__(self, points: Sequence[Mapping[str, Value]], seed: int = 0) -> None:
        columns = [column for column in _columns(points) if len(set(column)) > 1]
        features, scale_of, prior = _features(columns)
        self._x = np.stack(features, axis=1) if features else np.zeros((len(points), 1))
        self._model = Surrogate(np.array(scale_of or [0]), np.array(prior or [0.0]))
        self._single = self._x[:, [at for at, k in enumerate(scale_of) if prior[k] < PAIR]]
        codes = [np.unique(list(map(str, column)), return_inverse=True)[1] for column in columns]
        self._codes = np.stack(codes, axis=1) if codes else np.zeros((len(points), 1))
        self._random = np.random.default_rng(seed)
        self._first = max(FEWEST_FIRST, 2 * len(columns))
        self._free = np.ones(len(points), bool)
        # for each point, the distance to the nearest point that was tried
        self._gap = np.full(len(points), np.inf)
        self._tried: list[int] = []
        self._costs: list[float] = []

    def ask(self) -> int | None:
        """Returns the index of the next point, or None if all points were tried."""
        left = np.flatnonzero(self._free)
        if not left.size:
            return None
        if not self._tried:
            return 0
        known = np.isfinite(self._costs)
        if len(self._tried) == 1:
            return int(self._random.choice(left))
        if len(self._tried) < self._first or not known.any():
            farthest = self._gap[left]
            return int(self._random.choice(left[farthest >= farthest.max() - 1e-9]))
        return self._most_promising(self._candidates(left))

    def tell(self, at: int, cost: float | None) -> None:
        """Records the cost of a point, in any unit, or None when the point failed."""
        self._free[at] = False
        self._tried.append(at)
        self._costs.append(math.inf if cost is None else math.log(cost))
        gap = np.sum((self._single - self._single[at]) ** 2, axis=1)
        self._gap = np.minimum(self._gap, gap)

    def _candidates(self, left: np.ndarray) -> np.ndarray:
        """Returns candidates among `left`, the indices of untried points: at most CANDIDATES random
        ones. Every second call returns only points that differ from the best point on a single
        axis, if there are any.
        """
        if len(self._tried) % 2 == 0:
            best = self._tried[int(np.argmin(self._costs))]
            changes = np.count_nonzero(self._codes[left] != self._codes[best], axis=1)
            if (changes == 1).any():
                near: np.ndarray = left[changes == 1][:CANDIDATES]
                return near
        if left.size <= CANDIDATES:
            return left
        return self._random.choice(left, CANDIDATES, replace=False)

    def _most_promising(self, candidates: np.ndarray) -> int:
        costs = np.array(self._costs)
        best = costs.min()
        over = np.minimum(costs, costs[np.isfinite(costs)].max()) - best
        beyond = KNEE + KNEE * np.log(np.maximum(over, KNEE) / KNEE)
        costs = best + np.minimum(over, beyond)
        middle, spread = costs.mean(), costs.std() or 1.0
        self._model.fit(self._x[self._tried], (costs - middle) / spread)
        mean, deviation = self._model.predict(self._x[candidates])
        z = ((best - middle) / spread - mean) / deviation
        below = np.array([math.erfc(-value / math.sqrt(2)) / 2 for value in z])
        density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        return int(candidates[np.argmax(deviation * (z * below + density))])


def _columns(points: Sequence[Mapping[str, Value]]) -> Iterator[list[Value]]:
    """Yields for each axis a column: its values in all points, in order. An axis of group sizes
    such as "8x4" gives one column for each number.
    """
    for name in points[0]:
        column = [point[name] for point in points]
        if all(isinstance(value, str) and _NUMBERS.fullmatch(value) for value in column):
            sizes = [str(value).split("x") for value in column]
            yield from map(list, itertools.zip_longest(*zip(*sizes, strict=False)))
        else:
            yield column


def _features(
    columns: Sequence[Sequence[Value]],
) -> tuple[list[Floats], list[int], list[float]]:
    """Returns (features, the length scale of each, the prior of each length scale).

    Each of `columns` has the values of one axis in all points. An axis with numbers becomes one
    feature from 0 to 1: the mean of a number's rank and its logarithm, both scaled to that range.
    An axis with words becomes one feature for each word. The product of two axes with numbers, such
    as the threads of a group or the area of a tile, is a feature, too.
    """
    features: list[Floats] = []
    scale_of: list[int] = []
    prior: list[float] = []
    logarithms: list[Floats] = []
    for column in columns:
        if any(isinstance(value, str) for value in column):
            for word in sorted(set(map(str, column))):
                features.append(np.array([str(v) == word for v in column]) / math.sqrt(2))
                scale_of.append(len(prior))
        else:
            values = np.array(column, float)
            _, rank = np.unique(values, return_inverse=True)
            logarithm = np.log2(np.maximum(values, 0) + (values.min() <= 0))
            features.append((_unit(rank.astype(float)) + _unit(logarithm)) / 2)
            scale_of.append(len(prior))
            if values.min() > 0 and rank.max() > 1:
                logarithms.append(logarithm)
        prior.append(0.0)
    for one, other in itertools.combinations(logarithms, 2):
        features.append(_unit(one + other))
        scale_of.append(len(prior))
        prior.append(PAIR)
    return features, scale_of, prior


def _unit(values: Floats) -> Floats:
    """Returns the values, shifted and scaled so that they range from 0 to 1."""
    low, high = float(values.min()), float(values.max())
    return (values - low) / ((high - low) or 1.0)
