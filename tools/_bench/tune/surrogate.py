"""A Gaussian process over some dozen measured points: the expected cost of an untried point, and
its uncertainty.

The covariance is Matern's with nu = 5/2 (Rasmussen and Williams, 2006, section 4.2). Its parameters
are a length scale for each feature and the share of noise. Each fit improves their posterior
density by a few steps along the sign of the gradient (iRprop-, Igel and Huesken, 2000), starting
from the previous fit. Pure. Called by chooser.py.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

STEPS = 2  # gradient steps per fit
# mean and deviation of the prior of log(share of noise in the variance)
NOISE, NOISE_SPREAD = -5.0, 1.5
LENGTH_SPREAD = 1.0  # deviation of the prior of log(length scale)
MOST = 6.0  # largest value of log(noise share) and log(length scale)
FIRST_STEP, LEAST_STEP, MOST_STEP = 0.2, 1e-3, 0.7
GROW, SHRINK = 1.3, 0.5


class Surrogate:
    """A Gaussian process that predicts the costs of points. `scale_of[k]` is the index of feature
    k's length scale. `prior` has the expected logarithm of each length scale, before any cost is
    known.
    """

    def __init__(self, scale_of: npt.NDArray[np.intp], prior: Floats) -> None:
        self._scale_of = scale_of
        self._middle = np.append(prior, NOISE)
        self._spread = np.append(np.full(len(prior), LENGTH_SPREAD), NOISE_SPREAD)
        self._at = self._middle.copy()
        self._step = np.full(len(self._at), FIRST_STEP)
        self._before = np.zeros(len(self._at))

    def fit(self, x: Floats, y: Floats) -> None:
        """Fits the Gaussian process to costs `y` (n, of mean 0 and variance 1) of points with
        features `x` (n, k).
        """
        for _ in range(STEPS):
            gradient = self._gradient(x, y)
            turned = gradient * self._before
            factor = np.where(turned > 0, GROW, np.where(turned < 0, SHRINK, 1.0))
            self._step = np.clip(self._step * factor, LEAST_STEP, MOST_STEP)
            self._before = np.where(turned < 0, 0.0, gradient)
            self._at = np.clip(self._at - np.sign(self._before) * self._step, -MOST, MOST)
        self._x = x
        self._half, self._weights, self._variance, _ = self._solved(x, y)

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Returns (mean, standard deviation) of the cost at points with features `x` (m, k)."""
        covariance, _ = self._matern(self._x, x)
        mean = self._weights @ covariance
        known = np.sum((self._half @ covariance) ** 2, axis=0)
        return mean, np.sqrt(self._variance * np.maximum(1.0 - known, 1e-9))

    def _matern(self, a: Floats, b: Floats) -> tuple[Floats, Floats]:
        """Returns (the correlation of each point of `a` with each of `b`, `slope`). `slope` is the
        common factor of a correlation's derivatives. The derivative by log(l_k) is `slope * 5/3 *
        (a_k - b_k)**2 / l_k**2`. a_k and b_k are feature k of the two points, l_k is its length
        scale.
        """
        lengths = np.exp(self._at[self._scale_of])
        p, q = a / lengths, b / lengths
        squares = np.sum(p * p, axis=1)[:, None] + np.sum(q * q, axis=1) - 2 * p @ q.T
        far = np.sqrt(5 * np.maximum(squares, 0.0))
        near = np.exp(-far)
        slope = (1 + far) * near
        return slope + far * far / 3 * near, slope

    def _solved(self, x: Floats, y: Floats) -> tuple[Floats, Floats, float, Floats]:
        """Returns (the inverse of the Cholesky factor of the correlations, the weights of the
        points, the variance that fits best, `slope` of _matern). The points have features `x` and
        costs `y`.
        """
        correlations, slope = self._matern(x, x)
        correlations[np.diag_indices(len(y))] += math.exp(self._at[-1])
        half = np.linalg.inv(np.linalg.cholesky(correlations))
        weights = half.T @ (half @ y)
        return half, weights, float(y @ weights + 1) / (len(y) + 1), slope

    def _gradient(self, x: Floats, y: Floats) -> Floats:
        """Returns the gradient of the negative logarithm of the posterior density."""
        half, weights, variance, slope = self._solved(x, y)
        inner = half.T @ half - np.outer(weights, weights) / variance
        pull = inner * slope
        # Computes the sum of pull_ij (x_ik - x_jk)**2 over all pairs; `pull` is symmetric.
        by_feature = 2 * (pull.sum(axis=1) @ (x * x) - np.sum(x * (pull @ x), axis=0))
        by_scale = np.bincount(self._scale_of, by_feature, len(self._at) - 1)
        lengths = np.exp(2 * self._at[:-1])
        noise = math.exp(self._at[-1]) * np.trace(inner) / 2
        prior = (self._at - self._middle) / self._spread**2
        gradient: Floats = np.append(5 / 6 * by_scale / lengths, noise) + prior
        return gradient
