"""Inputs: new random values for each check, chosen so that a wrong kernel cannot look right.

A fill is a function (rng, shape, dtype, phase) -> array. `phase` is 0 for the check before timing
and 1 for the check after it, so that a fill can put the element that decides the result at another
place. No value is zero. Magnitudes stay within [0.5, 1.5): a kernel such as y = a*x + y, launched a
million times, then reaches neither infinity nor denormals. Called by workloads.py and
user_kernel.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Fill = Callable[[np.random.Generator, tuple[int, ...], "np.dtype[Any]", int], Array]

# limit of the size of random integers: the sum of two such integers fits an i32
_WIDEST_INT = 1 << 29


def signed(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], phase: int
) -> Array:
    """Makes floats of either sign with magnitude in [0.5, 1.5), non-zero integers of either sign,
    or unsigned integers from 1.
    """
    if dtype.kind == "f":
        values = rng.random(shape, dtype=np.float32 if dtype.itemsize <= 4 else np.float64) + 0.5
        np.copysign(values, rng.random(shape, dtype=np.float32) - np.float32(0.5), out=values)
        return values.astype(dtype, copy=False)
    top = min(_WIDEST_INT, int(np.iinfo(dtype).max))
    values = rng.integers(1, top, shape, dtype=dtype)
    if dtype.kind == "i":
        np.negative(values, out=values, where=rng.integers(0, 2, shape, dtype=np.int8).astype(bool))
    return values


def between(low: float, high: float) -> Fill:
    """Returns a fill of uniform floats in [low, high)."""

    def fill(
        rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], phase: int
    ) -> Array:
        kind = np.float32 if dtype.itemsize <= 4 else np.float64
        values = rng.random(shape, dtype=kind)
        values *= kind(high - low)
        values += kind(low)
        return values.astype(dtype, copy=False)

    return fill


def summable(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], phase: int
) -> Array:
    """Makes floats that are whole numbers of either sign in 1..32, so that sums are exact in any
    order.

    The sum of n random values is small compared with n. With arbitrary fractions, the tolerance for
    rounding would hide a missing element. Partial sums of 2**26 of these values stay below 2**24:
    f32 holds them exactly, and every missing element shows. Integers are made as by `signed`.
    """
    if dtype.kind != "f":
        return signed(rng, shape, dtype, phase)
    values = rng.integers(1, 33, shape, dtype=np.int8)
    np.negative(values, out=values, where=rng.integers(0, 2, shape, dtype=np.int8).astype(bool))
    return values.astype(dtype)


def peaked(sign: int) -> Fill:
    """Returns a fill for the input of a reduction along the middle one of three axes.

    The largest (`sign` 1) or smallest (-1) value along this axis of length n is the last element in
    phase 0, the first in phase 1. If its index were random, a reduction that skips one element
    would be wrong in only 1/n of the cases.
    """

    def fill(
        rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], phase: int
    ) -> Array:
        values = signed(rng, shape, dtype, phase)
        beyond = np.abs(signed(rng, (shape[0], shape[2]), dtype, phase))
        if dtype.kind == "f":
            beyond = beyond / dtype.type(4) + dtype.type(2)
        else:
            beyond = beyond // dtype.type(4) + dtype.type(_WIDEST_INT)
        values[:, -1 if phase == 0 else 0, :] = beyond * dtype.type(sign)
        return values

    return fill


def poison(nbytes: int, dtype: np.dtype[Any], rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Returns the bytes of an output before a launch: NaNs for floats, one random odd pattern for
    integers.
    """
    count = nbytes // dtype.itemsize
    if dtype.kind == "f":
        return np.full(count, np.nan, dtype).view(np.uint8)
    pattern = rng.integers(1 << 6, 1 << 7, dtype.itemsize, dtype=np.uint8) | np.uint8(1)
    return np.tile(pattern, count)
