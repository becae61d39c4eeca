"""Makes the operands of a case and its float64 reference, and measures the error of a result."""

from __future__ import annotations

import math
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sparkle_drv.ops import ref

from .cases import EXPRESSIONS, SCALAR, Case, Conv, Gemm

Array = np.ndarray[Any, Any]

DIRECT, WINOGRAD = 1.5e-5, 1e-4
"""Largest error of our result, over the rms of the reference. The first limit is for sums of
float32 products in any order (up to 1e-5 was measured). The second is for Winograd's F(4x4,3x3)
and F(6x6,3x3) with stride 1 (2e-5 to 7e-5)."""
FLOAT32 = 1e-3
"""Largest error of a peer that computes in float32, by any algorithm. bfloat16 has errors of
1e-2, a wrong result of 1."""
FLOAT64 = 1e-12


def operands(case: Case, seed: int = 1) -> dict[str, Array]:
    """Returns the operands of a case by name, filled with random numbers. They are the same in each
    call with the same case and seed.
    """
    rng = np.random.default_rng([seed, zlib.crc32(case.name.encode())])
    of = case.of

    def normal(*shape: int, dtype: Any = np.float32) -> Array:
        return rng.standard_normal(shape, dtype=dtype)

    if isinstance(of, Gemm):
        dtype = np.dtype(of.dtype)
        return {"a": normal(of.m, of.k, dtype=dtype), "b": normal(of.k, of.n, dtype=dtype)}
    if isinstance(of, Conv):
        x = normal(of.n, of.c, of.size, of.size)
        return {"x": x, "w": normal(of.oc, of.c // of.groups, of.k, of.k)}
    return {name: normal(of.n) for name in of.arrays}


def expected(case: Case, given: dict[str, Array]) -> Array:
    """Returns the result of the case, computed in float64."""
    of = case.of
    if isinstance(of, Gemm):
        return ref.gemm(given["a"], given["b"])
    if isinstance(of, Conv):
        pad = ((of.padding, of.padding),) * 2
        stride = (of.stride, of.stride)
        one = partial(ref.conv2d, w=given["w"], stride=stride, padding=pad, groups=of.groups)
        # One image at a time, because the temporaries of a whole batch would be gigabytes.
        return np.concatenate([one(image[None]) for image in given["x"]])
    text = EXPRESSIONS[of.expression]
    scalar = {"a": SCALAR} if "a*" in text else {}
    return ref.map(text, **{name: x.astype(np.float64) for name, x in given.items()}, **scalar)


def error(got: Array, want: Array) -> float:
    """Returns max |got - want| over rms(want), or inf if the shapes differ or a value is not
    finite.
    """
    if got.shape != want.shape:
        return math.inf
    most, squares = 0.0, 0.0
    flat, true = np.ascontiguousarray(got).reshape(-1), want.reshape(-1)
    # 1 Mi elements at a time, because temporaries of whole arrays would be large
    for at in range(0, true.size, 1 << 20):
        piece = true[at : at + (1 << 20)]
        worst = float(np.max(np.abs(flat[at : at + (1 << 20)] - piece)))
        if not math.isfinite(worst):  # max() would ignore a NaN
            return math.inf
        most = max(most, worst)
        squares += float(piece @ piece)
    return most / math.sqrt(squares / true.size)


def limit(case: Case, ours: bool) -> float:
    """Returns the largest error with which a result of the case counts as right. `ours`: the result
    is of this package, whose limits for float32 differ from those of other libraries.
    """
    of = case.of
    if isinstance(of, Gemm) and of.dtype == "float64":
        return FLOAT64
    if not ours:
        return FLOAT32
    return WINOGRAD if isinstance(of, Conv) and of.winograd else DIRECT


def write(given: dict[str, Array], folder: Path) -> None:
    """Writes the operands to files that every child process reads."""
    for name, array in given.items():
        np.save(folder / f"{name}.npy", array)
