"""Tolerances, and the first element of a result that exceeds its tolerance.

All tolerances and their reasons are in this file. They are public through ref. The tests and
`tools/bench.py` use them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sparkle_drv.ops.expression.elementwise import Array

# Tolerances in units of eps, for operations that round a fixed number of times. 0 means that the
# operation moves values and must be exact. saxpy, axpby: the terms of the sum may be a few times
# larger than the result, and so are their rounding errors. exp, tanh: a polynomial on a reduced
# argument is wrong by a few ulp. map: an expression has several such steps.
_ULPS = {
    **dict.fromkeys(("copy", "fill", "relu", "abs", "neg", "max", "min", "layout"), 0),
    **{"vecadd": 1, "saxpy": 4, "axpby": 6, "exp": 8, "tanh": 8, "map": 64},
}
# Tolerances of sums of k terms: (a, b) stands for eps * (a + b * sqrt(k)).
_SUMS = {
    **dict.fromkeys(("gemm", "conv2d", "reduce_sum", "sum", "mean"), (16, 4)),
    **dict.fromkeys(("winograd", "winograd2"), (64, 6)),
    "winograd6": (800, 1.5),
}


def tolerance(op: str, dtype: npt.DTypeLike | None = None, k: int = 1) -> float:
    """Returns the largest error to accept, as `mismatch` measures errors.

    `op` is an operation ("gemm", "conv2d", "sum", ...) with its dtype, or a manifest kernel
    ("gemm_f32"). `k` is the number of terms in the sum of each output: k of a gemm,
    `c/groups * kh * kw` of a conv2d, n of a reduction. Integers must be exact. Raises KeyError for
    an unknown `op`.

    A sum of k terms rounds k times, each time by at most eps/2 of a partial sum. Partial sums of i
    independent terms with mean zero grow as sqrt(i), and roundings are independent. So the error
    grows as `eps/2 * sqrt(sum_i i) = 0.35 * eps * k`, for an output of size sqrt(k). Relative to
    the output that is `0.35 * eps * sqrt(k)`, also for terms with another mean. The tolerance has
    the factor 4 in place of 0.35: eleven standard deviations, for the worst of millions of outputs.
    The 16 units of eps added to that cover bias, activation and small k.

    "winograd" is a conv2d by that algorithm. Its sums are half as large again, and its transforms
    multiply by up to 10 before they round (measured: 40 eps at k = 9). "winograd2" has the same
    tolerance. The error of "winograd6", with output tiles of 6 x 6, depends on the input values of
    a tile and hardly grows with k. Measured for 10 M outputs: 600 eps at k = 576, and 790 eps at
    k = 9 after a relu.

    A saturating activation makes outputs small or equal. Then compare the inputs of the activation.
    Or pass rms=1 to `mismatch`, and as tolerance the result of this function times the rms of the
    sums.

    >>> ref.tolerance("gemm", np.float32, k=256) < 1e-4
    True
    """
    base, _, suffix = op.rpartition("_")
    if dtype is None:
        op, dtype = base, {"f32": np.float32, "f64": np.float64}.get(suffix, np.int32)
    dtype = np.dtype(dtype)
    if dtype.kind != "f":
        return 0.0
    eps = float(np.finfo(dtype).eps)
    if op in _SUMS:
        fixed, growing = _SUMS[op]
        return eps * (fixed + growing * float(np.sqrt(k)))
    op = op.removeprefix("reduce_")
    return eps * _ULPS["layout" if "_to_" in op else op]


@dataclass(frozen=True)
class Mismatch:
    """The result of `mismatch`: `error` is the largest `|got - want| / max(rms, |want|)`.

    `index` is the flat index of the first element beyond the tolerance, None if there is none.
    `want` and `got` are the values of that element.

    >>> ref.mismatch(np.array([1.0, 2.5]), np.array([1.0, 2.0]), tolerance=1e-6).index
    1
    """

    error: float
    index: int | None
    want: float
    got: float


def mismatch(got: Array, want: Array, tolerance: float, rms: float | None = None) -> Mismatch:
    """Compares a result with its reference. `rms` is the scale of errors.

    By default `rms` is the root mean square of `want`. Give `rms` if there are few outputs, because
    all of them may be small by chance. For a single sum of k terms give the rms of the terms times
    sqrt(k).

    NaN must match NaN, an infinity must match the same infinity. Raises ValueError if the sizes
    differ.

    >>> limit = ref.tolerance("gemm", np.float32, k=256)
    >>> ref.mismatch(np.float32([1.0, 2.0]), np.array([1.0, 2.0]), limit).error
    0.0
    """
    wanted, actual = np.asarray(want).reshape(-1), np.asarray(got).reshape(-1)
    if wanted.size != actual.size:
        raise ValueError(
            f"mismatch: expected {wanted.size} elements, as in want, got {actual.size}"
        )
    if not wanted.size:
        return Mismatch(0.0, None, 0.0, 0.0)
    widest = np.float64 if wanted.dtype.kind == "f" else np.int64
    wide = np.result_type(wanted.dtype, actual.dtype, widest)
    with np.errstate(all="ignore"):  # no warnings: even == warns of a signaling NaN
        equal, whole = actual == wanted, wanted.dtype.kind + actual.dtype.kind in ("ii", "uu")
        wanted, actual = wanted.astype(wide), actual.astype(wide)
        finite = wanted[np.isfinite(wanted)]
        scale = float(np.sqrt(np.mean(np.square(finite, dtype=np.float64)))) if finite.size else 0.0
        off = np.abs(actual - wanted) / np.maximum(max(scale, rms or 0.0), np.abs(wanted))
    same = equal | (np.isnan(actual) & np.isnan(wanted))
    # `off` is a relative difference in float64, which cannot hold all bits of a u64. So it may be 0
    # for integers that differ; such elements are wrong too.
    off = np.where(same, 0.0, np.where(np.isnan(off) | (whole & (off == 0)), np.inf, off))
    beyond = np.flatnonzero(~(off <= tolerance))
    at = int(beyond[0]) if beyond.size else None
    shown = at or 0
    return Mismatch(float(off.max()), at, float(wanted[shown]), float(actual[shown]))
