"""reduce: sum, max, min or mean over any axes.

The kernels reduce the middle axis of an array [outer, n, inner]. Axes to reduce that are neighbours
in memory are joined to a block, which is one such axis. The blocks of a call are reduced one after
another, the innermost first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.arguments.annotations import Axis, Exporter, F, Host, Number, ReduceOp
from sparkle_drv.ops.arguments.quoting import listed, shown
from sparkle_drv.ops.calls import plans, table
from sparkle_drv.ops.expression import program, promote
from sparkle_drv.ops.map.operation import convert, fuses, through
from sparkle_drv.ops.map.operation import run as run_map
from sparkle_drv.ops.memory import staging
from sparkle_drv.ops.memory.constant import Constant
from sparkle_drv.ops.tiles import gpu as tiles_gpu

from .fold import (
    Lazy,
    Run,
    Shape,
    arranged,
    axes_of,
    cube_of,
    fold,
    kept,
    memory_order,
    runs,
    together,
)

WIDER = {"f16": "f32", "bf16": "f32", "u8": "i32", "bool": "i32"}
"""Types without reduction kernels -> the type to which they are converted."""
# Operation -> the operation of the kernel that computes it.
OPS = {"sum": "sum", "max": "max", "min": "min", "mean": "sum"}


@overload
def reduce(
    dev: Device, a: npt.NDArray[F], /,
    op: ReduceOp = "sum", axis: Axis = None, *, keepdims: bool = False,
) -> npt.NDArray[F]: ...  # fmt: skip
@overload
def reduce(
    dev: Device, a: Array, /,
    op: ReduceOp = "sum", axis: Axis = None, *, keepdims: bool = False,
) -> Array: ...  # fmt: skip
@overload
def reduce(
    dev: Device, a: Host, /,
    op: ReduceOp = "sum", axis: Axis = None, *, keepdims: bool = False,
) -> Host: ...  # fmt: skip
@overload
def reduce(  # type: ignore[overload-overlap]  # a call without an array fits two
    dev: Device, a: str | Callable[..., Any], /,
    op: ReduceOp = "sum", axis: Axis = None, *, keepdims: bool = False,
    **names: Host | Number,
) -> Host: ...  # fmt: skip
@overload
def reduce(
    dev: Device, a: str | Callable[..., Any], /,
    op: ReduceOp = "sum", axis: Axis = None, *, keepdims: bool = False,
    **names: Array | Constant | Host | Number,
) -> Array: ...  # fmt: skip
@overload
def reduce(
    dev: Device, a: Exporter | Constant | Lazy | str | Callable[..., Any], /,
    op: ReduceOp = "sum", axis: Axis = None, *, keepdims: bool = False,
    **names: Exporter | Array | Constant | Number,
) -> Host | Array: ...  # fmt: skip
def reduce(
    dev: Device,
    a: Any,
    /,
    op: ReduceOp = "sum",
    axis: Axis = None,
    *,
    keepdims: bool = False,
    **names: Any,
) -> Any:
    """Reduces `a` by `op` ("sum", "max", "min" or "mean") over `axis`.

    `axis` is None for all axes, a number, or several numbers. a is float32, float64, int32,
    float16, bfloat16, uint8 or bool, on the cpu also int64. The result has the dtype of a, except
    that sums of whole numbers are int64 (of uint8: uint64) as in numpy. Whole numbers have no mean.
    float16 and bfloat16 are summed in float32 or wider and rounded once. For devices without
    kernels for float16, bfloat16, uint8 and bool the host converts (`explain()` of a result that is
    an Array says so). max and min are NaN if an element is NaN. With keepdims, reduced axes stay,
    with length 1. For a numpy array the call is synchronous and returns a numpy array, 0-d if no
    axis is left. For an Array the call is asynchronous and returns an Array with `.fence`.

    a may also be an expression or a function of `names`, as in
    reduce(dev, "relu(x) * y", x=x, y=y), or the result of `ops.lazy`. The cpu device computes the
    expression while it reduces, in one pass over arrays of any strides. The same input gives the
    same bits for any number of threads.

    Raises TypeError for an argument or dtype that it does not take. Raises ValueError if an axis
    does not exist or is given twice, and for max or min of no elements.

    >>> x = np.arange(6, dtype=np.float32).reshape(2, 3)
    >>> sp.ops.reduce(dev, x, "max", axis=1)
    array([2., 5.], dtype=float32)
    >>> float(sp.ops.reduce(dev, "x * x", x=x))
    55.0
    """
    staging.device(dev)
    values = a, op, axis, keepdims
    repeated = None if names else table.again(dev, (reduce, dev, *values))
    if repeated is not None:
        return repeated
    check.one_of("op", op, tuple(OPS))
    if isinstance(a, (Lazy, str)) or (callable(a) and not isinstance(a, Array)):
        if isinstance(a, Lazy) and names:
            raise TypeError(
                f"{listed(names)}: expected no values by name, because a (made by lazy) has its own"
            )
        expression = a if isinstance(a, Lazy) else Lazy(a, (), names)
        folded = fold(dev, expression, op, axis, keepdims)
        if folded is not None:
            return folded
        a, names = expression.map(dev), {}
    if names:
        raise TypeError(
            f"{listed(names)}: expected no values by name, because a is an array, not an expression"
        )
    stage = staging.Stage(dev, {"a": a})
    (a,) = stage.inputs.values()
    axes, final, dtype = outline(a, op, axis, keepdims)
    tag = check.tag_of(np.dtype(a.dtype))
    if tag == "i64" and not fuses(dev):
        raise check.NotThere(f"a: expected another type than int64 on {dev.uri}, got int64")
    stored = tag not in check.DTYPES.values()
    if op == "mean" and not stored:
        staging.check_there(dev, "mean", tag, ("f32", "f64"))
    scattered = isinstance(a, np.ndarray) and not a.flags.c_contiguous
    if fuses(dev) and (stored or scattered):
        folded = fold(dev, Lazy("x", (a,), {}), op, axis, keepdims)
        if folded is not None:
            return folded
    shape = tuple(a.shape)
    if not math.prod(shape):
        nothing = np.full(final, np.nan if op == "mean" else 0, dtype)
        return stage.moved(nothing) if stage.on_device else nothing
    # `fold` returned None: there are too many dimensions for one pass. Reduce one axis first.
    if tag == "i64":
        longer = [i for i in axes if shape[i] > 1]
        a = reduce(dev, a, op, longer[-1], keepdims=True) if longer else np.ascontiguousarray(a)
        return reduce(dev, a, op, axis, keepdims=keepdims)
    if stored:
        kind = check.tag_of(dtype) or dtype.name
        return through(
            dev, "reduce", a, WIDER[tag],
            lambda a: convert(dev, reduce(dev, a, op, axis, keepdims=keepdims), kind),
        )  # fmt: skip
    order = memory_order(shape, [a.strides] if isinstance(a, np.ndarray) else [])
    # The result is int64, so reduce in one pass: no kernel can sum the int64 results of a first
    # pass.
    if dtype != a.dtype:
        side_by_side = together(shape, axes, order)
        a = a._host() if isinstance(a, Array) and side_by_side != order else a
        order = side_by_side
    if isinstance(a, np.ndarray):
        a = staging.row_major(dev, a.transpose(order))
    rest = [i for i in order if i not in axes]
    if not stage.on_device:
        final = tuple(shape[i] for i in rest)
    target = _passes(stage, a, runs(shape, axes, order), f"reduce_{OPS[op]}_{tag}", final, dtype)
    if op == "mean":
        count = float(math.prod(shape[i] for i in axes))
        code = program.compile_map("x / n", frozenset("n"), tag)
        run_map(stage, code, tag, target.pointer, [target.pointer], [count])
    result = arranged(stage.finish(target), rest, axes, keepdims)
    return table.remember(stage, result, reduce, values, (table.RESULT, 0))


def outline(a: Any, op: str, axis: Any, keepdims: bool) -> tuple[Shape, Shape, np.dtype[Any]]:
    """Returns (the axes to reduce, shape and dtype of the result) for an array like `a`."""
    check.one_of("op", op, tuple(OPS))
    tag = check.dtype("reduce", "a", a.dtype, check.TYPES)
    if op == "mean" and tag in promote.SUMMED_IN:
        check.dtype("mean", "a", a.dtype, [t for t in check.TYPES if t not in promote.SUMMED_IN])
    shape: Shape = tuple(a.shape)
    axes = axes_of(axis, len(shape))
    final = kept(shape, axes, keepdims)
    if op in ("max", "min") and 0 in shape and 0 not in final:
        raise ValueError(
            f"a: {op} over no elements has no value, got shape {shape}, axis {shown(axis)}"
        )
    return axes, final, promote.summed(tag) if op == "sum" else np.dtype(a.dtype)


def _in_parts(stage: staging.Stage, x: Array, n: int, name: str) -> tuple[Array, int]:
    """Reduces a long row in parts. Returns (the results of the parts, their number).

    Returns (x, n) if the row is short. The caller does not call this for int32, whose sums are
    int64: no kernel can add up the sums of the parts.
    """
    parts = tiles_gpu.reduce_parts(stage.dev.info, n)
    if parts == 1:
        return x, n
    each, size = n // parts // 4 * 4, x.dtype.itemsize
    rest = n - parts * each
    results = stage.dev.empty((parts + bool(rest),), x.dtype)
    for at, rows, of in ((0, parts, each), (parts, 1, rest))[: 1 + bool(rest)]:
        function = plans.reduce(stage.dev, name, rows, of, 1)
        to = results.buffer.view(at * size, rows * size)
        stage.launch(function, to, x.buffer.view(at * each * size, rows * of * size), rows, of, 1)
    return results, parts + bool(rest)


def _passes(
    stage: staging.Stage, a: Any, groups: list[Run], kernel: str, shape: Shape, dtype: Any
) -> staging.Target:
    """Launches a kernel for each block of neighbouring axes to reduce, the innermost block first.

    Returns the memory of the result. If no axis is to be reduced, one launch copies the elements.
    """
    current = stage.pointer(a)
    while True:
        outer, n, inner = cube_of(groups)
        for name, value in (("outer", outer), ("reduced", n), ("inner", inner)):
            check.size(f"a: elements along the {name} axes", value)
        last = not any(reduced for _, reduced in groups)
        if outer * inner == 1 and isinstance(current, Array) and not kernel.endswith("i32"):
            current, n = _in_parts(stage, current, n, kernel)
        target = stage.target(shape if last else (outer * inner,), dtype)
        function = plans.reduce(stage.dev, kernel, outer, n, inner)
        stage.launch(function, target.pointer, current, outer, n, inner)
        if last:
            return target
        current = target.pointer
