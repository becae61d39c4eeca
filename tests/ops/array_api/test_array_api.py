"""The functions of `x.__array_namespace__()`, by the text of the array API standard.

A library that is written for the standard asks an Array for its namespace and calls nothing else.

When this fails, a library that is written for the standard fails on our Arrays.
"""

import re
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.ops import array_api as xp

DOCS = Path(__file__).resolve().parents[3] / "docs" / "api.md"
UNARY = [text.partition("=") for text in xp._UNARY.split()]
BINARY = [text.partition("=") for text in xp._BINARY.split()]
FLOATS = np.array([-2.5, -0.5, 0.25, 0.5, 1.5, 3.0], np.float32)
WHOLE = np.array([-3, -1, 0, 1, 2, 5], np.int32)
TRUTHS = np.array([True, False, True, True, False, False])


def host(x):
    return x.numpy()


def same(got, want, tolerance=2e-6):
    assert isinstance(got, sp.Array)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_allclose(host(got), want, rtol=tolerance, atol=1e-7)


def test_an_array_gives_the_namespace_of_this_version_only():
    x = xp.ones(3)
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError, match=r"api_version: expected 2024\.12 or None, got '2099\.12'"):
        x.__array_namespace__(api_version="2099.12")


@pytest.mark.parametrize(("name", "_", "other"), UNARY, ids=[name for name, *_ in UNARY])
def test_a_function_of_one_array_is_numpy_s(name, _, other):
    ran = False
    for values in (FLOATS, WHOLE, TRUTHS):
        with np.errstate(all="ignore"):
            try:
                want = np.asarray(getattr(np, other or name)(values))
            except TypeError:
                continue
        if name in ("ceil", "floor", "round", "trunc") and values is WHOLE:
            want = values  # the standard keeps the type, and numpy's rint makes floats
        same(getattr(xp, name)(xp.asarray(values)), want)
        ran = True
    assert ran


@pytest.mark.parametrize(("name", "_", "other"), BINARY, ids=[name for name, *_ in BINARY])
def test_a_function_of_two_arrays_is_numpy_s_and_broadcasts(name, _, other):
    ran = False
    for values in (FLOATS, np.abs(WHOLE) + 1, TRUTHS):
        first, second = values[:, None], values[::-1].copy()
        with np.errstate(all="ignore"):
            try:
                want = getattr(np, other or name)(first, second)
            except TypeError:
                continue
        same(getattr(xp, name)(xp.asarray(first), xp.asarray(second)), want)
        ran = True
    assert ran


@pytest.mark.parametrize(
    "name", ["all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "sum"]
)
def test_a_reduction_is_numpy_s_along_axes(name):
    values = np.stack([FLOATS, FLOATS[::-1], -FLOATS])
    for axis in (None, 0, -1):
        for keepdims in (False, True):
            got = getattr(xp, name)(xp.asarray(values), axis=axis, keepdims=keepdims)
            same(got, np.asarray(getattr(np, name)(values, axis=axis, keepdims=keepdims)))


def test_a_sum_takes_a_dtype_and_small_integers_do_not_overflow():
    small = np.full(300, 100, np.int8)
    same(xp.sum(xp.asarray(small)), np.sum(small))
    same(xp.sum(xp.asarray(small), dtype=xp.float32), np.sum(small, dtype=np.float32))


def test_new_arrays_have_the_standard_s_types():
    assert [xp.zeros(2).dtype, xp.arange(3).dtype, xp.asarray(True).dtype] == [
        xp.float64, xp.int64, xp.bool,
    ]  # fmt: skip
    same(xp.arange(1, 7, 2), np.array([1, 3, 5]))
    same(xp.full((2, 2), 7), np.full((2, 2), 7))
    same(xp.ones_like(xp.asarray(WHOLE)), np.ones_like(WHOLE))
    same(xp.asarray([[xp.asarray(1.0), 2], (3, 4)]), np.array([[1.0, 2], [3, 4]]))
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["integral"] == xp.int64
    assert set(info.dtypes(kind="bool")) == {"bool"}


def test_asarray_copies_when_it_is_told_to_and_only_then():
    x = xp.asarray(FLOATS)
    assert xp.asarray(x) is x
    kept = xp.asarray(x, copy=True)
    x[0] = 9.0
    assert kept.get(0) == FLOATS[0]
    with pytest.raises(ValueError, match="copy: expected None or True"):
        xp.asarray([1.0], copy=False)


def test_shapes_and_types_change_as_the_standard_says():
    values = FLOATS.reshape(2, 3)
    x = xp.asarray(values)
    same(xp.permute_dims(x, (1, 0)), values.T)
    same(xp.matrix_transpose(xp.reshape(x, (1, 2, 3))), values.T[None])
    same(xp.astype(x, xp.float64), values.astype(np.float64))
    assert xp.astype(x, x.dtype, copy=False) is x
    same(xp.matmul(x, x.mT), values @ values.T)
    same(xp.where(x > 0, x, -x), np.abs(values))
    assert xp.result_type(x, xp.float64) == xp.float64
    assert xp.can_cast(x, xp.float64)
    assert not xp.can_cast(xp.float64, x.dtype)


def test_results_stay_on_the_device_of_their_operands(opened):
    there = opened("egl:0")
    x = xp.asarray(FLOATS, device=there)
    for got in (xp.sin(x), xp.add(x, 1), xp.sum(x), xp.ones_like(x), xp.astype(x, xp.int32)):
        assert got.device is there
    assert "one map on egl:0" in xp.sin(x).explain()
    assert "numpy on the host" in xp.log1p(x).explain()
    assert xp.sin(x).to_device(x.device).device is there
    np.testing.assert_array_equal(host(x.to_device(opened("cpu"))), FLOATS)


def test_new_arrays_survive_that_somebody_closes_their_device():
    xp.ones(2).device.close()
    same(xp.ones(2) + 1, np.full(2, 2.0))


def test_an_array_of_one_whole_number_is_an_index():
    assert list(range(5))[xp.asarray(2)] == 2
    with pytest.raises(TypeError, match=r"expected an Array of one whole number, got 2\.5"):
        hex(xp.asarray(2.5))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: xp.sin(1.0), "x: expected an Array, got float"),
        (lambda: xp.add(1, 2), "x: expected an Array, got int"),
        (lambda: xp.sum([1]), "x: expected an Array, got list"),
        (lambda: xp.zeros(2, device="cpu"), "device: expected an open Device or None, got str"),
        (lambda: xp.where(True, xp.ones(1), 0), "x: expected an Array, got bool"),
        (lambda: xp.ones(2).mT, r"mT: expected 2 dimensions or more, got shape \(2,\)"),
    ],
)
def test_wrong_arguments_are_one_typed_line(call, said):
    with pytest.raises((TypeError, ValueError), match=said) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_the_docs_count_the_functions_that_are_here():
    ours = {"array_of", "cpu_device", "device_of", "filled", "on_host"}
    functions = {n for n, f in vars(xp).items() if isinstance(f, FunctionType) and n[0] != "_"}
    count = len(functions - ours | {"finfo", "iinfo", "__array_namespace_info__"})
    assert f"{count} of its 134 functions" in re.sub(r"\s+", " ", DOCS.read_text())
