"""What Context's methods are: the operations of `ops`, placed by an executor.

Each says what its call amounts to (operations.py) and how `ops` runs it; checking arguments is
left to `ops`, which raises before anything is submitted. A call whose shape cannot be told goes to
the first device, whose error says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from sparkle_drv import ops
from sparkle_drv.core.array import Array
from sparkle_drv.ops import expr, geometry

from . import operations, validate
from .arrays import ContextArray
from .local import LocalExecutor
from .noted import call

Uris = tuple[str, ...]
"""The devices that a call may go to."""


@call
def gemm(
    executor: LocalExecutor, uris: Uris, a: Any, b: Any, out: Any, options: dict[str, Any]
) -> Any:
    """`ops.gemm` where it takes least time."""

    def describe() -> tuple[operations.Class, float, int]:
        (m, k), n = a.shape, b.shape[1]
        kind, size = operations.gemm_class(m, n, k, a.dtype)
        return kind, size, m * n * a.dtype.itemsize

    def run(dev: Any, given: Sequence[Any], target: Any) -> Any:
        return ops.gemm(dev, given[0], given[1], target, bias=given[2], **options)

    try:
        key = a.shape, b.shape, a.dtype  # again.py looks it up
        wrong = len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]
    except (AttributeError, IndexError):
        wrong = True
    bias = options.pop("bias", None)
    if _bound(a, b, bias, out):
        wrong = True
    if wrong or 0 in (*a.shape, *b.shape) or operations.tag_of(a.dtype) not in ("f32", "f64"):
        return _plain(executor, uris, [a, b, bias], out, run)
    check = partial(validate.gemm, activation=options.get("activation"))
    return executor.run(key, describe, (a, b, bias), out, run, uris, check)


@call
def conv2d(
    executor: LocalExecutor, uris: Uris, x: Any, w: Any, out: Any, options: dict[str, Any]
) -> Any:
    """`ops.conv2d` where it takes least time."""
    names = ("stride", "padding", "dilation", "groups", "layout")
    defaults = (1, 0, 1, 1, "NCHW")
    how = [options.get(name, usual) for name, usual in zip(names, defaults, strict=True)]
    bias = options.pop("bias", None)

    def run(dev: Any, given: Sequence[Any], target: Any) -> Any:
        return ops.conv2d(dev, given[0], given[1], given[2], target, **options)

    try:
        shape = geometry.geometry(x.shape, w.shape, *how)
        wrong = _bound(x, w, bias, out)
    except (AttributeError, TypeError, ValueError):
        wrong = True
    if wrong:
        return _plain(executor, uris, [x, w, bias], out, run)

    def describe() -> tuple[operations.Class, float, int]:
        kind, size = operations.conv2d_class(shape)
        return kind, size, 4 * int(np.prod(shape.out_shape))

    check = partial(validate.conv2d, shape=shape, activation=options.get("activation"))
    return executor.run(("conv2d", shape), describe, (x, w, bias), out, run, uris, check)


@call
def map(
    executor: LocalExecutor,
    uris: Uris,
    expression: Any,
    values: Sequence[Any],
    out: Any,
    named: dict[str, Any],
) -> Any:
    """`ops.map` where it takes least time."""
    given = dict(named)
    wanted: Sequence[str] = ()
    if isinstance(expression, str):
        wanted = expr.parse(expression).names
        left = [name for name in wanted if name not in named]
        given.update(zip(left, values, strict=False))
    arrays = {name: v for name, v in given.items() if getattr(v, "shape", ())}
    numbers = {name: v for name, v in given.items() if name not in arrays}
    beyond = values[len(given) - len(named) :]  # too many of them: ops.map says so

    def run(dev: Any, there: Sequence[Any], target: Any) -> Any:
        now = {**given, **dict(zip(arrays, there, strict=True))}
        return ops.map(dev, expression, *beyond, out=target, **now)

    operands = list(arrays.values())
    shapes = {x.shape for x in operands}
    tags = {operations.tag_of(x.dtype) for x in operands}
    odd = (
        not tags <= {"f32", "f64", "i32"}
        or beyond
        or given.keys() != {*wanted}
        or _bound(*operands, out)
    )
    if len(shapes) != 1 or 0 in next(iter(shapes)) or odd:
        return _plain(executor, uris, operands, out, run)
    first = operands[0]

    def describe() -> tuple[operations.Class, float, int]:
        kind = operations.map_class(expression, arrays, numbers)
        return kind, float(sum(x.nbytes for x in operands) + first.nbytes), first.nbytes

    key = ("map", expression, tuple(arrays), first.shape, tuple(x.dtype for x in operands))
    check = partial(validate.map, expression=expression, names=tuple(arrays), numbers=numbers)
    return executor.run(key, describe, operands, out, run, uris, check)


@call
def reduce(
    executor: LocalExecutor,
    uris: Uris,
    a: Any,
    op: Any,
    axis: Any,
    names: dict[str, Any],
) -> Any:
    """`ops.reduce` where it takes least time."""

    arrays = {name: x for name, x in names.items() if isinstance(x, ContextArray)}

    def run(dev: Any, there: Sequence[Any], _: Any) -> Any:
        now = {**names, **dict(zip(arrays, there[1:], strict=True))}
        return ops.reduce(dev, there[0], op, axis, **now)

    try:
        key = ("reduce", op, a.shape, a.dtype, axis if axis is None else str(axis))
        usual = 0 not in a.shape and op in ("sum", "max", "min") and not names and not _bound(a)
    except AttributeError:
        usual = False
    if not usual:
        return _plain(executor, uris, [a, *arrays.values()], None, run)

    def describe() -> tuple[operations.Class, float, int]:
        return operations.reduce_class(op, a.dtype), float(a.nbytes), a.dtype.itemsize

    check = partial(validate.reduce, op=op, axis=axis)
    return executor.run(key, describe, [a], None, run, uris, check)


@call
def layout(
    executor: LocalExecutor, uris: Uris, a: Any, target: Any, options: dict[str, Any]
) -> Any:
    """`ops.layout` where `a` is, else where it takes least time."""

    def run(dev: Any, there: Sequence[Any], _: Any) -> Any:
        return ops.layout(dev, there[0], target, **options)

    source = str(options.get("source") or getattr(a, "layout", None))
    if {source, target} != {"NCHW", "NHWC"} or _bound(a) or 0 in a.shape:
        return _plain(executor, uris, [a], None, run)

    def describe() -> tuple[operations.Class, float, int]:
        return operations.layout_class(source, target), float(a.nbytes), a.nbytes

    check = partial(validate.layout, source=source, target=target)
    key = ("layout", source, target, a.shape)
    return executor.run(key, describe, [a], None, run, uris, check)


def _bound(*given: Any) -> bool:
    """Is there one that is neither numpy's nor a ContextArray? A core.Array is on one device, and a
    lazy expression is not there yet: such calls are not placed.
    """
    return any(x is not None and not isinstance(x, (np.ndarray, ContextArray)) for x in given)


def _plain(executor: LocalExecutor, uris: Uris, operands: Sequence[Any], out: Any, run: Any) -> Any:
    """Without a plan: where the first core.Array is, else on the first device."""
    held = [x.device.uri for x in (*operands, out) if isinstance(x, Array) and not x.closed]
    uri = next((h for h in held if h in executor.devices), uris[0])
    there = [x.on(uri) if isinstance(x, ContextArray) else x for x in operands]
    target = out.on(uri) if isinstance(out, ContextArray) else out
    made = run(executor.devices[uri], there, target)
    if isinstance(out, ContextArray):
        out.wrote(uri)
        return out
    is_array = any(isinstance(x, ContextArray) for x in operands)
    return ContextArray(executor, uri, made) if is_array else made
