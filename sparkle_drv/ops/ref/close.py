"""How close is close enough, and where a result first is not.

The one place with tolerances and their reasons. Public through ref; called by the tests and by
`tools/bench.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkle_drv.ops.expression.elementwise import Array

# Units of eps for operations that round a fixed number of times; 0: they move values and must be
# exact. saxpy, axpby: two products and a sum, whose parts may be a few times the result. exp, tanh:
# a polynomial on a reduced argument, a few ulp. map: a handful of such steps in one expression.
_ULPS = {
    **dict.fromkeys(("copy", "fill", "relu", "abs", "neg", "max", "min", "layout"), 0),
    **{"vecadd": 1, "saxpy": 4, "axpby": 6, "exp": 8, "tanh": 8, "map": 64},
}
# Units of eps, and of eps * sqrt(k), for sums of k terms.
_SUMS = {
    **dict.fromkeys(("gemm", "conv2d", "reduce_sum", "sum", "mean"), (16, 4)),
    **dict.fromkeys(("winograd", "winograd2"), (64, 6)),
    "winograd6": (800, 1.5),
}


def tolerance(op: str, dtype: Any = None, k: int = 1) -> float:
    """The largest error to accept, as `mismatch` measures it.

    `op` is an operation ("gemm", "conv2d", "sum", ...) with its dtype, or a manifest kernel
    ("gemm_f32"). `k` is how many terms each output adds up: k of a gemm, `c/groups * kh * kw` of a
    conv2d, n of a reduction. Integers must be exact.

    A sum of k terms rounds k times, each time by at most eps/2 of a partial sum. Partial sums of k
    independent terms grow as sqrt(i) (mean zero) and roundings do not conspire, so the error grows
    as `eps/2 * sqrt(sum_i i) = 0.35 * eps * k` against an output of sqrt(k): `0.35 * eps * sqrt(k)`
    of it, and as much when the terms have a mean. The factor 4 leaves eleven standard deviations,
    for the worst of millions of outputs; + 16 covers bias, activation and small k.

    "winograd" is a conv2d by that algorithm: its sums are half as large again, and its transforms
    round what they multiply by up to 10 on the way (measured: 40 eps at k = 9). "winograd2" is held
    to the same. "winograd6", with output tiles of 6 x 6, rounds by what stands in a patch, hardly
    the more the more terms (measured: 600 eps at k = 576, of 10 M outputs; 790 at k = 9, of those
    of a relu).

    Of saturating activations compare what goes into them, or hold the results against an rms of 1
    and `tolerance` times that of the sums.
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
    """`error` is the largest `|got - want| / max(rms, |want|)`.

    `index` (flat) is the first element beyond the tolerance, None when there is none, and `want`
    and `got` are that element.
    """

    error: float
    index: int | None
    want: float
    got: float


def mismatch(got: Array, want: Array, tolerance: float, rms: float | None = None) -> Mismatch:
    """Compares a result with its reference; `rms` is the scale, by default that of `want`.

    Say what it should be where few outputs can be small by chance, as a sum of thousands can: the
    rms of its terms times sqrt(k).

    NaN must meet NaN, an infinity the same infinity, sizes must be equal (else ValueError).
    """
    wanted, given = np.asarray(want).reshape(-1), np.asarray(got).reshape(-1)
    if wanted.size != given.size:
        raise ValueError(f"mismatch: got has {given.size} elements, want {wanted.size}")
    if not wanted.size:
        return Mismatch(0.0, None, 0.0, 0.0)
    widest = np.float64 if wanted.dtype.kind == "f" else np.int64
    wide = np.result_type(wanted.dtype, given.dtype, widest)
    with np.errstate(all="ignore"):  # also of a NaN that signals
        equal, whole = given == wanted, wanted.dtype.kind + given.dtype.kind in ("ii", "uu")
        wanted, given = wanted.astype(wide), given.astype(wide)
        finite = wanted[np.isfinite(wanted)]
        scale = float(np.sqrt(np.mean(np.square(finite, dtype=np.float64)))) if finite.size else 0.0
        off = np.abs(given - wanted) / np.maximum(max(scale, rms or 0.0), np.abs(wanted))
    same = equal | (np.isnan(given) & np.isnan(wanted))
    # Floats have no room for the last bits of a u64: what they do not tell apart may still differ.
    off = np.where(same, 0.0, np.where(np.isnan(off) | (whole & (off == 0)), np.inf, off))
    beyond = np.flatnonzero(~(off <= tolerance))
    at = int(beyond[0]) if beyond.size else None
    shown = at or 0
    return Mismatch(float(off.max()), at, float(wanted[shown]), float(given[shown]))
