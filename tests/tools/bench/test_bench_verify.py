"""What is accepted and what is not: outputs, guard bands, inputs; and what inputs are made of.

When this fails, a wrong result is accepted and timed.
"""

from __future__ import annotations

import numpy as np
import pytest
from _bench.jobs import fills
from _bench.measure import verify

F32 = np.dtype(np.float32)


def test_within_tolerance_is_scaled_by_rms():
    want = np.array([1000.0, -1000.0, 0.001, 1000.0])
    got = want.astype(np.float32)
    got[2] += np.float32(0.005)  # 5e-6 of the rms, five times the value itself
    verdict = verify.against("y", got, want, 1e-5)
    assert verdict.ok
    assert verdict.error["max_rel_rms"] == pytest.approx(0.005 / np.sqrt(0.75e6), rel=0.01)
    assert verdict.error["tolerance"] == 1e-5
    assert not verify.against("y", got, want, 1e-6).ok


def test_large_values_may_round_by_their_own_size():
    want = np.array([1.0] * 9999 + [1e6])
    got = want.copy()
    got[-1] *= 1 + 1e-7
    assert verify.against("y", got, want, 2e-7).ok
    got[-1] *= 1 + 1e-6
    assert not verify.against("y", got, want, 2e-7).ok


def test_first_wrong_index_expected_and_got():
    want = np.arange(12, dtype=np.float64).reshape(3, 4)
    got = want.astype(np.float32)
    got[1, 2] = 100
    got[2, 3] = 100
    verdict = verify.against("c", got, want, 1e-6)
    assert not verdict.ok
    assert verdict.error["first_wrong_index"] == [1, 2]
    assert (verdict.error["expected"], verdict.error["got"]) == (6.0, 100.0)
    assert (verdict.error["wrong"], verdict.error["of"]) == (2, 12)
    assert verdict.sentence == "wrong result: c[1, 2] expected 6.0 got 100.0 (2 of 12 wrong)"


def test_blocks_do_not_hide_an_error():
    """The comparison works in blocks; the only wrong element is in the last, partial one."""
    n = 3 * (1 << 17) + 5
    want = np.ones(n)
    got = want.astype(np.float32)
    got[n - 1] = 2
    verdict = verify.against("y", got, want, 1e-6)
    assert verdict.error["first_wrong_index"] == [n - 1]
    assert verdict.error["max_rel_rms"] == 1.0


def test_nan_and_infinity():
    want = np.array([1.0, np.nan, np.inf, -np.inf])
    assert verify.against("y", want.astype(np.float32), want, 1e-6).ok
    for at, wrong in ((0, np.nan), (1, 0.0), (2, -np.inf), (3, 1e30), (2, np.nan)):
        got = want.astype(np.float32)
        got[at] = wrong
        verdict = verify.against("y", got, want, 1e-6)
        assert not verdict.ok
        assert verdict.error["first_wrong_index"] == [at]


def test_exact_rounds_the_oracle_only_to_the_output_type():
    want = np.array([0.1, 0.2])
    assert verify.against("y", want.astype(np.float32), want, 0.0).ok
    got = np.nextafter(want.astype(np.float32), np.float32(1))
    assert not verify.against("y", got, want, 0.0).ok


def test_integers_are_exact_and_sizes_must_agree():
    want = np.array([1, 2, 3], np.int64)
    assert verify.against("y", want.astype(np.int32), want, 0.0).ok
    wrong = verify.against("y", np.array([1, 2, 4], np.int32), want, 0.0)
    assert (wrong.error["expected"], wrong.error["got"]) == (3, 4)
    assert not verify.against("y", np.zeros(2), np.zeros(3), 1.0).ok


def test_all_zero_reference_has_an_absolute_scale():
    assert verify.against("y", np.full(4, 1e-9, np.float32), np.zeros(4), 1e-6).ok
    assert not verify.against("y", np.full(4, 1e-3, np.float32), np.zeros(4), 1e-6).ok


def test_unchanged_compares_bits():
    before = np.array([1.0, -0.0, np.nan], np.float32)
    assert verify.unchanged("x", before, before.copy()).ok
    after = before.copy()
    after[1] = 0.0  # equal, other bits
    verdict = verify.unchanged("x", before, after)
    assert verdict.error["first_wrong_index"] == [1]
    assert "input was overwritten" in verdict.sentence


def test_band():
    pattern = np.arange(100, dtype=np.uint8)
    assert verify.band_intact("y", "behind", pattern, pattern.copy()).ok
    changed = pattern.copy()
    changed[[3, 90]] ^= 1
    behind = verify.band_intact("y", "behind", pattern, changed)
    before = verify.band_intact("y", "before", pattern, changed)
    assert (behind.error["nearest_nbytes"], before.error["nearest_nbytes"]) == (4, 10)
    assert "wrote outside of y: the guard band before it" in before.sentence


def test_worst_of_is_the_first_failure_else_the_largest_error():
    good, better = verify.passed(2e-6, 1e-5), verify.passed(1e-6, 1e-5)
    assert verify.worst_of([better, good]) is good
    bad, worse = verify.broken("a"), verify.broken("b")
    assert verify.worst_of([good, bad, worse]) is bad
    assert verify.worst_of([]).ok


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u4", "i8", "u8"])
def test_inputs_are_never_zero_and_differ_by_seed(dtype):
    kind = np.dtype(dtype)
    first, second = (
        fills.signed(np.random.default_rng(seed), (10_000,), kind, 0) for seed in (1, 2)
    )
    assert first.dtype == kind
    assert (first != 0).all()
    assert (first != second).mean() > 0.99
    if kind.kind == "f":
        assert (np.abs(first) >= 0.5).all()
        assert (np.abs(first) < 1.5).all()
    if kind.kind != "u":
        assert 0.45 < (first < 0).mean() < 0.55


def test_summable_inputs_add_up_exactly_in_f32():
    n = 1 << 20
    values = fills.summable(np.random.default_rng(3), (1, n, 1), F32, 0).reshape(-1)
    exact = values.astype(np.float64).sum()
    assert float(np.cumsum(values, dtype=np.float32)[-1]) == exact  # one after the other
    assert (
        float(values.reshape(64, -1).sum(axis=0, dtype=np.float32).sum(dtype=np.float32)) == exact
    )
    assert (np.abs(values) >= 1).all()


@pytest.mark.parametrize("dtype", ["f4", "i4"])
@pytest.mark.parametrize("sign", [1, -1])
def test_peaked_inputs_have_their_extremum_at_an_end(dtype, sign):
    for phase, at in ((0, 99), (1, 0)):
        rng = np.random.default_rng(phase)
        values = fills.peaked(sign)(rng, (3, 100, 5), np.dtype(dtype), phase)
        extremum = values.argmax(axis=1) if sign > 0 else values.argmin(axis=1)
        assert (extremum == at).all()


def test_poison():
    rng = np.random.default_rng(0)
    assert np.isnan(fills.poison(40, F32, rng).view(np.float32)).all()
    first = fills.poison(40, np.dtype(np.int32), rng).view(np.int32)
    assert (first == first[0]).all()
    assert first[0] != 0
    assert fills.poison(40, np.dtype(np.int32), rng).view(np.int32)[0] != first[0]
