"""Checks results in float64 at a cost far below that of the work. Each function is pure: it takes
arrays and returns a description of the error, or "" if there is none.

Freivalds' test checks a whole product: it compares c r with a (b r) for two vectors r of random
signs. It cannot check a product with an activation, or rows that are not finite. For those, and for
convolutions and maps, the check computes some elements again. For reductions of expressions it
computes some results again. Other reductions and layouts are computed again whole, at full cost.

Tolerance: a sum of k terms in a type with relative spacing eps is off by at most t times the sum of
the magnitudes of its terms, where t = eps * (16 + 4 sqrt(k)) (ops/ref/tolerances.py). With random
signs such errors add up as the root of their sum of squares. By Minkowski's inequality, the bound
of that root over a row of c is t times sum_l |a_il| * norm(b_l). The test allows four times this
bound.

Source: R. Freivalds, Probabilistic machines can use less running time, IFIP Congress 1977.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkle_drv.ops import ref
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.expression import promote
from sparkle_drv.ops.expression.graph import Graph
from sparkle_drv.ops.map import fused
from sparkle_drv.ops.map.operation import sorted_out
from sparkle_drv.ops.shapes.geometry import Geometry

from . import bounds

Array = npt.NDArray[Any]
Outline = tuple[dict[str, Array], dict[str, Any], set[np.dtype[Any]], str]
"""Arrays and numbers of an expression by name, the types of its steps, and how to check it: by
"exact" whole numbers, by "bounds", or "" if not at all.
"""

SAMPLES = 32
"""Elements of a result that are computed again. Up to as many elements that are not finite are
added."""
TURNS = 2
"""Random vectors of Freivalds' test. One vector misses errors that cancel, in half of the cases."""
SIGNS = 4.0
PIECE = 1 << 16
"""Terms of a reduction whose values and bounds are computed at a time."""
TILE = 6
"""Pixels beside an output's window that a Winograd tile may read. The largest case is F(4x4) with
stride 2."""


def product(
    got: Array, operands: Sequence[Array | None], chance: np.random.Generator,
    activation: str | None = None,
) -> str:  # fmt: skip
    """Checks c = activation(a @ b + bias). `operands` holds a, b, bias."""
    a, b, bias = (None if x is None else np.asarray(x, np.float64) for x in operands)
    assert a is not None
    assert b is not None
    beside = np.zeros(b.shape[1]) if bias is None else bias
    terms = a.shape[1] + (bias is not None)
    rows = np.asarray(np.isfinite(a).all(1))
    columns = np.asarray(np.isfinite(b).all(0)) & np.isfinite(beside)
    if activation is None:
        wrong = _freivalds(got, a, b, beside, terms, rows, columns, chance)
        if wrong:
            return wrong
    clean = rows[:, None] & columns
    # the elements of the result whose row of a, column of b, or bias is not finite
    odd = np.flatnonzero(~clean)
    none = np.flatnonzero(clean & ~np.isfinite(got))
    with np.errstate(all="ignore"):
        for at in _some(got.size, odd, none, chance):
            i, j = np.unravel_index(at, got.shape)
            products = a[i] * b[:, j]
            want, size = products.sum() + beside[j], np.abs(products).sum() + abs(beside[j])
            wrong = _element(got, (i, j), want, size, "gemm", terms, activation)
            if wrong:
                return wrong
    return ""


def _freivalds(
    got: Array, a: Array, b: Array, bias: Array, terms: int, rows: Array, columns: Array,
    chance: np.random.Generator,
) -> str:  # fmt: skip
    """Runs Freivalds' test on the rows and columns whose inputs and results are finite."""
    signs = np.where(columns[:, None], chance.choice((-1.0, 1.0), (len(columns), TURNS)), 0.0)
    b, bias = np.where(columns, b, 0.0), np.where(columns, bias, 0.0)
    with np.errstate(all="ignore"):
        there = np.where(columns, got, 0.0).astype(np.float64)
        off = np.abs(there @ signs - a @ (b @ signs) - bias @ signs).max(1)
        size = np.abs(a) @ np.sqrt((b**2).sum(1)) + np.sqrt((bias**2).sum())
        allowed = SIGNS * _tolerance("gemm", got.dtype, terms) * size + _tiny(got, terms)
        # For f64 the check itself rounds as much as the device does, so twice the error is allowed.
        allowed = allowed * (2.0 if got.dtype == np.float64 else 1.0)
        judged = rows & np.isfinite(there).all(1) & np.isfinite(allowed) & np.isfinite(off)
        beyond = judged & (off > allowed)
    if not beyond.any():
        return ""
    i = int(np.flatnonzero(beyond)[0])
    return f"row {i} is off by {off[i]:.3g}, more than {allowed[i]:.3g} (Freivalds)"


def convolution(
    got: Array, operands: Sequence[Array | None], chance: np.random.Generator, shape: Geometry,
    activation: str | None = None,
) -> str:  # fmt: skip
    """Checks some elements of a convolution. `operands` holds x, w, bias."""
    x, w, bias = operands
    assert x is not None
    assert w is not None
    nhwc = shape.layout == "NHWC"
    images, result = (np.moveaxis(v, 3, 1) if nhwc else v for v in (x, got))
    each = shape.c // shape.groups
    for at in _some(result.size, np.flatnonzero(~np.isfinite(result)), (), chance):
        n, oc, oy, ox = (int(i) for i in np.unravel_index(at, result.shape))
        first = oc // (shape.oc // shape.groups) * each
        image = images[n, first : first + each].astype(np.float64)
        weights = w[oc].astype(np.float64)
        with np.errstate(all="ignore"):
            products = weights * _window(image, shape, oy, ox)
            beside = 0.0 if bias is None else float(bias[oc])
            want, size = products.sum() + beside, np.abs(products).sum() + abs(beside)
            op = "conv2d"
            if shape.winograd:  # a Winograd tile also adds and subtracts pixels outside the window
                near = _near(image, shape, oy, ox)
                if not np.isfinite(near).all():
                    continue
                op = "winograd6" if shape.stride == (1, 1) else "winograd"
                size = float((np.abs(weights).sum((1, 2)) * near).sum()) + size
            wrong = _element(result, (n, oc, oy, ox), want, size, op, shape.terms + 1, activation)
        if wrong:
            return wrong
    return ""


def _window(image: Array, shape: Geometry, oy: int, ox: int) -> Array:
    """Returns the part of an image [c, h, w] that one output reads: [c, kh, kw], zero beyond the
    edges.
    """
    window = np.zeros((len(image), *shape.kernel))
    rows, columns = (
        [at * shape.stride[i] - shape.pad[i] + tap * shape.dilation[i]
         for tap in range(shape.kernel[i])]
        for i, at in enumerate((oy, ox))
    )  # fmt: skip
    for u, y in enumerate(rows):
        for v, column in enumerate(columns):
            if 0 <= y < shape.h and 0 <= column < shape.w:
                window[:, u, v] = image[:, y, column]
    return window


def _near(image: Array, shape: Geometry, oy: int, ox: int) -> Array:
    """Returns the largest magnitude of each channel near the window of an output: [c]."""
    y, x = (at * shape.stride[i] - shape.pad[i] for i, at in enumerate((oy, ox)))
    part = image[:, max(0, y - TILE) : y + 3 + TILE, max(0, x - TILE) : x + 3 + TILE]
    return np.asarray(np.abs(part).max((1, 2), initial=0.0))


def expression(
    got: Array, reads: Mapping[str, Array], chance: np.random.Generator, graph: Graph,
    numbers: Mapping[str, Any],
) -> str:  # fmt: skip
    """Checks some elements of a map. `reads` holds the arrays by their names in the expression.
    They broadcast to the shape of the result.
    """
    arrays, single, steps, way = _outline(graph, {**numbers, **reads}, got.dtype)
    if not way:
        return ""
    flat = got.reshape(-1)
    at = _some(flat.size, np.flatnonzero(~np.isfinite(flat)), (), chance)
    there = {name: np.broadcast_to(x, got.shape).flat[at] for name, x in arrays.items()}
    if way == "exact":
        want = np.broadcast_to(ref.map(graph, **there, **single), at.shape)
        unlike = np.flatnonzero(want != flat[at])
        off = np.zeros(len(at))
    else:
        want, off = bounds.evaluate(graph, {**there, **single}, *steps, got.dtype)
        with np.errstate(all="ignore"):
            alike = (want == flat[at]) | (np.isnan(want) & np.isnan(flat[at]))
            unlike = np.flatnonzero(~alike & ~(np.abs(want - flat[at]) <= off) & np.isfinite(off))
    if not unlike.size:
        return ""
    i = int(unlike[0])
    return f"element {int(at[i])} is {flat[at[i]]}, {want[i]} +- {off[i]:.3g} is right"


def _outline(graph: Graph, values: dict[str, Any], result: np.dtype[Any]) -> Outline:
    arrays, numbers = sorted_out(values)
    kinds = {name: check.tag_of(x.dtype) for name, x in arrays.items()}
    code, _ = fused.program(graph, kinds, numbers)
    steps = {promote.dtype_of(kind) for kind in code.types}
    dtypes = {x.dtype for x in arrays.values()}
    if {*dtypes, *steps} == {np.dtype(np.int32)} and result.kind == "i":
        return arrays, numbers, steps, "exact"
    # An expression that is not wholly in i32 is checked only if all arrays and the result are
    # floating-point, and no step is unsigned. float64 does not reproduce conversions from and to
    # integers, and unsigned integers wrap around at 0.
    floats = all(t.kind == "f" for t in (*dtypes, result)) and all(t.kind in "fi" for t in steps)
    return arrays, numbers, steps, "bounds" if floats else ""


def reduction(got: Array, a: Array, op: str, axis: Any) -> str:
    """Checks a whole reduction of `a`. The result may keep reduced axes with length 1."""
    with np.errstate(all="ignore"):
        want = ref.reduce(a, op, axis)
        result = np.asarray(got).reshape(want.shape)
        if a.dtype.kind in "iub" or op in ("max", "min"):
            same = (want.astype(result.dtype) == result) | (np.isnan(want) & np.isnan(result))
            wrong = np.flatnonzero(~same)
        elif result.dtype.kind != "f":
            return ""  # unchecked: numpy does not know the spacing of bfloat16
        else:
            size = np.abs(a).sum(axis, dtype=np.float64)
            terms = a.size // max(1, result.size)
            allowed = _tolerance("sum", result.dtype, terms) * size + _tiny(result, terms)
            if op == "mean":
                allowed = _mean_off(allowed, want, result.dtype, terms)
            same = (want == result) | (np.isnan(want) & np.isnan(result))
            over = np.isfinite(size) & (size > np.finfo(result.dtype).max / 2)
            wrong = np.flatnonzero(~(same | over | (np.abs(result - want) <= allowed)))
    if not wrong.size:
        return ""
    i = int(wrong[0])
    return f"element {i} is {result.reshape(-1)[i]}, {want.reshape(-1)[i]} is right"


def _mean_off(off: Any, want: Any, dtype: Any, terms: int) -> Any:
    """Returns how far a mean may be off.

    That is the error `off` of the sum, divided by the number of terms, plus the rounding of the
    division.
    """
    return off / max(1, terms) + bounds.ROUND * float(np.finfo(dtype).eps) * np.abs(want)


def folded(
    got: Array, reads: Mapping[str, Array], chance: np.random.Generator, graph: Graph,
    numbers: Mapping[str, Any], op: str, axis: Any,
) -> str:  # fmt: skip
    """Checks some results of a reduction of an expression. `reads` holds the arrays by their names
    in the expression. They broadcast to one shape.
    """
    result = np.asarray(got).reshape(-1)
    read, single, steps, way = _outline(graph, {**numbers, **reads}, result.dtype)
    if not way:
        return ""
    spread = np.broadcast_arrays(*read.values())
    arrays = dict(zip(read, spread, strict=True))
    shape = spread[0].shape
    axes = range(len(shape)) if axis is None else [int(i) % len(shape) for i in np.atleast_1d(axis)]
    kept = [i for i in range(len(shape)) if i not in axes]
    turned = {name: x.transpose(*kept, *axes) for name, x in arrays.items()}
    some = _some(result.size, np.flatnonzero(~np.isfinite(result)), (), chance)
    for at in some if result.size > SAMPLES else range(result.size):
        where = np.unravel_index(int(at), tuple(shape[i] for i in kept))
        row = {name: x[where].reshape(-1) for name, x in turned.items()}
        if way == "exact":
            want, off = float(ref.reduce(ref.map(graph, **row, **single), op)), 0.0
        else:
            want, off = _folded(graph, row, single, op, result.dtype, steps)
        value = float(result[at])
        alike = value == want or (np.isnan(value) and np.isnan(want))
        if not (alike or not np.isfinite(off) or abs(value - want) <= off):
            return f"element {int(at)} is {value:.9g}, {want:.9g} +- {off:.3g} is right"
    return ""


def _folded(
    graph: Graph, row: dict[str, Array], numbers: dict[str, Any], op: str, dtype: Any,
    steps: set[np.dtype[Any]],
) -> tuple[float, float]:  # fmt: skip
    """Returns one result of a reduction of an expression, and how far the device may be off, or inf
    if that has no bound. `row` has the terms' operands by name. `steps` are the types in which the
    device computes a term.
    """
    terms = max(x.size for x in row.values())
    values, off = np.empty(terms), np.empty(terms)
    for i in range(0, terms, PIECE):
        piece = {name: x[i : i + PIECE] for name, x in row.items()}
        values[i : i + PIECE], off[i : i + PIECE] = bounds.evaluate(
            graph, {**piece, **numbers}, *steps, dtype
        )
    with np.errstate(all="ignore"):
        want = float(ref.reduce(values, op))
        if op in ("max", "min"):
            ends = np.array([ref.reduce(values + sign * off, op) for sign in (-1, 1)])
            far = np.where((ends == want) | (np.isnan(ends) & np.isnan(want)), 0, abs(ends - want))
            return want, float(far.max())
        numeric = np.isfinite(values)
        size = float((np.abs(values[numeric]) + off[numeric]).sum())
        if not np.isfinite(off).all() or size > np.finfo(dtype).max / 2:
            return want, np.inf
        if not numeric.all():
            return want, 0.0
        allowed = off.sum() + _tolerance("sum", dtype, terms) * size
        allowed = float(allowed + np.finfo(dtype).tiny * (terms + 1))
        # For float64 the check itself rounds as much as the device does, so the device may be off
        # by twice as much.
        if np.dtype(dtype) == np.float64:
            allowed *= 2
        return want, float(_mean_off(allowed, want, dtype, terms)) if op == "mean" else allowed


def layout(
    got: Array, operands: Sequence[Array | None], chance: np.random.Generator, source: str,
    target: str, channels: int | None = None,
) -> str:  # fmt: skip
    """Checks a change of layout. `operands` has one entry, the operand. Every bit must be right."""
    want = ref.layout(np.asarray(operands[0]), source, target, channels)
    if np.ascontiguousarray(got).tobytes() == want.tobytes():
        return ""
    return f"expected the {target} layout of the operand, got other bytes"


def _some(count: int, odd: Array, worse: Any, chance: np.random.Generator) -> Array:
    """Returns the flat indices of the elements to check.

    They are SAMPLES of all `count` elements, and up to SAMPLES each of the elements `odd` and
    `worse`, which the caller wants checked more often.
    """
    every = chance.integers(0, count, min(SAMPLES, count)) if count else np.zeros(0, np.int64)
    some = [chance.permutation(np.asarray(x, np.int64))[:SAMPLES] for x in (odd, worse)]
    return np.concatenate([every, *some]).astype(np.int64)


def _tolerance(op: str, dtype: Any, terms: int) -> float:
    return ref.tolerance(op, dtype, terms)


def _tiny(got: Array, terms: int) -> float:
    """Returns the error that flushing small numbers to zero may cause in a sum of `terms` terms."""
    return float(np.finfo(got.dtype).tiny) * (terms + 1)


def _element(
    got: Array, at: tuple[Any, ...], want: float, size: float, op: str, terms: int,
    activation: str | None,
) -> str:  # fmt: skip
    """Checks one element against the sum `want` of terms whose magnitudes add up to `size`."""
    value = float(got[at])
    if np.isfinite(size) and size > np.finfo(got.dtype).max / 4:
        return ""  # unchecked: a partial sum may have overflowed
    off = _tolerance(op, got.dtype, terms) * size + _tiny(got, terms)
    want = float(ref.activate(np.asarray(want), activation))
    if activation in ("tanh", "sigmoid"):
        off += 64 * float(np.finfo(got.dtype).eps)
    if value == want or (np.isnan(value) and np.isnan(want)) or abs(value - want) <= off:
        return ""
    where = ", ".join(str(int(i)) for i in at)
    return f"element [{where}] is {value:.9g}, {want:.9g} +- {off:.2g} is right"
