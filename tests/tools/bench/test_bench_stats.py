"""The interval of the median holds what it promises, and the stop rule obeys it.

When this fails, the printed intervals are narrower than the noise.
"""

from __future__ import annotations

import numpy as np
import pytest
from _bench.measure.stop_rule import StopRule
from _bench.rows import stats


@pytest.mark.parametrize("n", [6, 7, 10, 20, 51, 200, 1001, 3000])
def test_interval_covers_the_median(n):
    """Over 2000 simulated series of a skewed distribution whose median is known (log 2), at least
    95 % of the intervals hold it; four standard deviations of luck allowed."""
    rng = np.random.default_rng(n)
    ordered = np.sort(rng.exponential(size=(2000, n)), axis=1)
    low, high = stats.interval_ranks(n)
    held = np.mean((ordered[:, low] <= np.log(2)) & (np.log(2) <= ordered[:, high]))
    assert held >= 0.95 - 4 * np.sqrt(0.95 * 0.05 / 2000)
    if n >= 51:  # and it is no wider than it must be: order statistics come in steps
        assert held <= 0.975 + 4 * np.sqrt(0.95 * 0.05 / 2000)


def test_ranks_are_those_of_the_tables():
    # Conover, Practical Nonparametric Statistics: 95 % intervals of the median, one-based ranks.
    for n, ranks in {6: (1, 6), 10: (2, 9), 15: (4, 12), 20: (6, 15), 25: (8, 18)}.items():
        assert stats.interval_ranks(n) == (ranks[0] - 1, ranks[1] - 1)


def test_the_exact_and_the_normal_ranks_meet():
    exact, normal = stats.interval_ranks(1000), stats.interval_ranks(1001)
    assert abs(exact[0] - normal[0]) <= 1
    assert abs(exact[1] - normal[1]) <= 1


def test_summarize():
    got = stats.summarize([5.0, 1.0, 4.0, 2.0, 3.0])
    assert (got.median, got.low, got.high, got.n) == (3.0, 1.0, 5.0, 5)
    assert got.half_width == float("inf")  # five samples have no 95 % interval
    got = stats.summarize(np.arange(1, 102))
    assert got.median == 51
    assert got.low < 51 < got.high
    assert got.half_width == (got.high - got.low) / 2 / 51
    with pytest.raises(ValueError, match="expected at least one sample"):
        stats.summarize([])


def test_drift():
    assert stats.drift([1.0] * 20) == 0
    assert stats.drift([1.0] * 10 + [1.5] * 10) == 0.5
    assert stats.drift([1.0, 9.0]) == 0  # too few to say


def test_best_sustained_is_not_the_luckiest_sample():
    samples = [10.0] * 20 + [8.0] * 5 + [10.0] * 5 + [1.0] + [10.0] * 5
    assert stats.best_sustained(samples) == 8.0
    assert stats.best_sustained([3.0, 1.0, 2.0]) == 2.0


def test_ratio_interval_holds_the_true_ratio():
    rng = np.random.default_rng(5)
    held = 0
    for trial in range(100):
        old = 100 + rng.exponential(3, 60)
        new = 1.1 * (100 + rng.exponential(3, 60))
        low, high = stats.ratio_interval(old, new, seed=trial, rounds=300)
        held += low <= 1.1 <= high
    assert held >= 86  # 95 expected; four standard deviations
    assert stats.ratio_interval(old, new, 1) == stats.ratio_interval(old, new, 1)


def ask_over(rule, samples, seconds_each):
    """(why it stopped, after how many samples)."""
    for n in range(1, len(samples) + 1):
        stop = rule.ask(samples[:n], n * seconds_each)
        if stop:
            return stop, n
    return None, len(samples)


def test_stop_rule_on_precision():
    steady = list(100 + np.random.default_rng(1).normal(0, 0.5, 5000))
    assert ask_over(StopRule(0.01, 60, least=20), steady, 1e-3) == ("precision", 20)
    noisy = list(100 + np.random.default_rng(1).normal(0, 20, 5000))
    why, n = ask_over(StopRule(0.01, 60, least=20), noisy, 1e-3)
    assert why == "precision"
    assert 500 < n < 3500  # 1.25 * 1.96 * 20 / sqrt(n) = 1
    assert stats.summarize(noisy[:n]).half_width <= 0.01


def test_stop_rule_on_time_and_number():
    noisy = list(100 + np.random.default_rng(1).normal(0, 50, 3000))
    assert ask_over(StopRule(0.001, 0.5, least=20), noisy, 1e-2) == ("timeout", 50)
    assert ask_over(StopRule(0.001, 60, least=20, most=1000), noisy, 1e-3) == ("max_samples", 1000)
    # One sample is always taken, and constant times are precise at once but not before `least`.
    assert ask_over(StopRule(0.01, 1.0), [1.0], 30.0) == ("timeout", 1)
    assert ask_over(StopRule(0.01, 60, least=20), [7.0] * 99, 1e-3) == ("precision", 20)
