"""The operations of a Context: those of `ops`, placed by an executor.

Each function describes its call (operations.py) and how `ops` runs it. When a plan is made, calls
that `ops` would refuse are refused before any measurement (argument_checks.py); `ops` checks
repeated calls.

Some calls are not placed: calls with arrays that are bound to a device, with a function in place of
an operation, or with empty arrays. They go to the first available device. Calls whose shape cannot
be determined go there, too: `ops` then raises the error.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from sparkle_drv import ops
from sparkle_drv.core.array import Array
from sparkle_drv.ops.arguments.check import NotThere
from sparkle_drv.ops.expression.promote import dtype_of
from sparkle_drv.ops.layout.operation import outline as changed
from sparkle_drv.ops.map.operation import bind, common_shape, graph_of
from sparkle_drv.ops.memory.constant import Constant
from sparkle_drv.ops.shapes import geometry
from sparkle_drv.sched.check import validate
from sparkle_drv.sched.model import expressions, operations, outline
from sparkle_drv.sched.model.conversion import Conversion

from . import argument_checks, ways
from .arrays import ContextArray, check_own, here
from .call_spans import call
from .constants import ContextConstant
from .local import FAILURES, LocalExecutor, may_be_redone

log = logging.getLogger("sparkle_drv.sched")

Uris = tuple[str, ...]
"""URIs of the devices that a call may use."""
Key = tuple[Any, ...]
"""Key of a kept plan: `uris`, and all else that distinguishes calls (fast_path.py)."""
_WITH_LAYOUT = (Array, ContextArray, Constant, ContextConstant)
_ARRAYS = (np.ndarray, Array, ContextArray, Constant, ContextConstant)


@call
def gemm(
    executor: LocalExecutor,
    uris: Uris,
    key: Key,
    /,
    a: Any,
    b: Any,
    out: Any = None,
    **options: Any,
) -> Any:
    """Runs `ops.gemm` on the device that takes least time."""

    def describe() -> tuple[operations.Class, float, int]:
        argument_checks.gemm(a, b, bias, out, options)
        (m, k), n = a.shape, b.shape[1]
        kind, size = operations.gemm_class(m, n, k, a.dtype)
        return kind, size, m * n * a.dtype.itemsize

    bias = options.pop("bias", None)

    def run(dev: Any, given: Sequence[Any], target: Any) -> Any:
        return ops.gemm(dev, given[0], given[1], target, bias=given[2], **options)

    try:
        wrong = len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]
    except (AttributeError, IndexError):
        wrong = True
    if _bound(a, b, bias, out) or options.keys() - {"activation", "algo"}:
        wrong = True
    if wrong or 0 in (*a.shape, *b.shape) or a.dtype not in (np.float32, np.float64):
        return plain(executor, uris, [a, b, bias], out, run)
    check = partial(validate.gemm, activation=options.get("activation"))
    return executor.run(key, describe, (a, b, bias), out, run, uris, check)


@call
def conv2d(
    executor: LocalExecutor, uris: Uris, key: Key, /, x: Any, w: Any, bias: Any = None,
    out: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """Runs `ops.conv2d` on the device that takes least time.

    By default the convolution works in the layout of `x`. An `x` in another layout is changed
    first, on the device that does the work.
    """
    own = x.layout if isinstance(x, _WITH_LAYOUT) else None
    options.setdefault("layout", own if own in geometry.LAYOUTS else "NCHW")
    how: dict[str, Any] = {name: options.get(name, usual) for name, usual in geometry.FORM.items()}
    unknown = options.keys() - {*how, "activation", "algo"}
    convert, x_shape = None, getattr(x, "shape", ())
    if own not in (None, options["layout"]) and hasattr(w, "shape"):
        convert, x_shape = _conversion(x, w, how["groups"], how["layout"])

    def run(dev: Any, given: Sequence[Any], target: Any) -> Any:
        image = given[0]
        # If the call has a plan, the executor has already changed the image's layout. Otherwise the
        # layout is changed here.
        if convert is not None and image.layout == own:
            image = convert.run(dev, image)
        return ops.conv2d(dev, image, given[1], given[2], target, **options)

    try:
        shape = geometry.geometry(x_shape, w.shape, **how)
        wrong = bool(unknown) or _bound(x, w, bias, out)
    except (AttributeError, TypeError, ValueError):
        if convert is not None:
            raise
        wrong = True
    if wrong:
        return plain(executor, uris, [x, w, bias], out, run)

    def describe() -> tuple[operations.Class, float, int]:
        argument_checks.conv2d(x, w, bias, out, options)
        kind, size = operations.conv2d_class(shape)
        return kind, size, 4 * int(np.prod(shape.out_shape))

    check: validate.Check = partial(
        validate.conv2d, shape=shape, activation=options.get("activation")
    )
    if convert is not None:
        check = partial(_as_converted, x.layout, options["layout"], shape.c, check)
    return executor.run(key, describe, (x, w, bias), out, run, uris, check, convert)


def _conversion(
    x: Any, w: Any, groups: Any, layout: Any
) -> tuple[Conversion | None, tuple[int, ...]]:
    """Returns the change of an image to `layout` for the filters `w`, and the image's shape after
    the change.

    The change is None if none is needed. Raises TypeError or ValueError, as `ops.conv2d` does, for
    a bad argument.
    """
    found = outline.as_worked_in(x, w, groups, layout)
    if found is None:
        return None, x.shape
    image, channels = found

    def run(dev: Any, there: Any) -> Any:
        return ops.layout(dev, there, layout, channels=channels)

    kind = operations.layout_class(x.layout, layout)
    return Conversion(0, kind, image.nbytes, run), image.shape


def _as_converted(
    source: str, target: str, channels: int, check: validate.Check, got: Any,
    given: Sequence[Any], chance: np.random.Generator,
) -> str:  # fmt: skip
    """Checks the result `got` of a convolution whose image was changed to another layout first.

    Changes the image `given[0]` from the layout `source` to `target`, too. Then calls `check`.
    """
    return check(got, (ops.ref.layout(given[0], source, target, channels), *given[1:]), chance)


@call
def map(
    executor: LocalExecutor, uris: Uris, key: Key, expression: Any, /, *values: Any,
    out: Any = None, **named: Any,
) -> Any:  # fmt: skip
    """Runs `ops.map` on the device that takes least time."""
    graph = graph_of(expression)
    given = bind(graph, values, named)
    check_own(executor, (*given.values(), out))
    arrays = {name: x for name, x in given.items() if isinstance(x, _ARRAYS) and x.shape}
    place = ""
    if arrays:  # 0-d arrays beside other arrays count as numbers
        for name, x in given.items():
            if isinstance(x, ContextArray) and not x.shape:
                given[name], place = x.numpy()[()], place or x.places[0]
            elif isinstance(x, ContextConstant) and not x.shape:
                given[name] = x.numpy()[()]
    else:
        arrays = {name: x for name, x in given.items() if isinstance(x, _ARRAYS)}
    numbers = {name: x for name, x in given.items() if name not in arrays}

    def run(dev: Any, there: Sequence[Any], target: Any) -> Any:
        now = {**given, **dict(zip(arrays, there, strict=True))}
        return ops.map(dev, expression, *now.values(), out=target)

    operands = list(arrays.values())
    try:
        count = math.prod(common_shape(arrays)) if arrays else 0
    except ValueError:
        count = 0
    if not count or not isinstance(expression, str) or _bound(*operands, out):
        made = plain(executor, uris, operands, out, run)
    else:

        def describe() -> tuple[operations.Class, float, int]:
            code, scalars = argument_checks.map(graph, arrays, numbers, out)
            kind, size = expressions.map_class(expression, graph, code, scalars, arrays)
            return kind, size, count * dtype_of(code.result).itemsize

        check = partial(validate.map, expression=expression, names=tuple(arrays), numbers=numbers)
        made = executor.run(key, describe, operands, out, run, uris, check)
    # a call with ContextArrays returns a ContextArray
    if place and isinstance(made, np.ndarray) and out is None:
        return ContextArray(executor.own, place, executor.devices[place].array(made))
    return made


@call
def reduce(
    executor: LocalExecutor, uris: Uris, key: Key, a: Any, op: Any, axis: Any, /, *,
    keepdims: bool = False, **names: Any,
) -> Any:  # fmt: skip
    """Runs `ops.reduce` on the device that takes least time."""

    kinds = ContextArray, ContextConstant
    arrays = {name: x for name, x in names.items() if isinstance(x, kinds)}

    def run(dev: Any, there: Sequence[Any], _: Any) -> Any:
        now = {**names, **dict(zip(arrays, there[1:], strict=True))}
        return ops.reduce(dev, there[0], op, axis, keepdims=keepdims, **now)

    try:
        usual = (
            op in ("sum", "max", "min", "mean")
            and isinstance(keepdims, bool)
            and 0 not in a.shape
            and not names
            and not _bound(a)
        )
    except AttributeError:
        usual = False
    if not usual:
        return plain(executor, uris, [a, *arrays.values()], None, run)

    def describe() -> tuple[operations.Class, float, int]:
        argument_checks.reduce(a, op, axis)
        return operations.reduce_class(op, a.dtype), float(a.nbytes), a.dtype.itemsize

    check = partial(validate.reduce, op=op, axis=axis)
    # Sums add elements in the order of memory. A contiguous copy of a strided array has another
    # order, so its sum would have other bits: `whole` forbids such a copy.
    whole = isinstance(a, np.ndarray) and not a.flags.c_contiguous
    return executor.run(key, describe, [a], None, run, uris, check, whole=whole)


@call
def layout(
    executor: LocalExecutor, uris: Uris, key: Key, /, a: Any, target: Any, out: Any = None,
    **options: Any,
) -> Any:  # fmt: skip
    """Runs `ops.layout` on the device that has `a`, else on the one that takes least time."""

    def run(dev: Any, there: Sequence[Any], to: Any) -> Any:
        return ops.layout(dev, there[0], target, out=to, **options)

    try:
        change = changed(a, target, options.get("source"), options.get("channels"))
        wrong = _bound(a, out) or 0 in a.shape or not change.steps
    except (AttributeError, TypeError, ValueError):
        wrong = True
    if wrong or options.keys() - {"source", "channels"}:
        return plain(executor, uris, [a], out, run)
    source = change.before.name

    def describe() -> tuple[operations.Class, float, int]:
        argument_checks.layout(a, change.shape, target, out)
        kind = operations.layout_class(source, target)
        return kind, float(a.nbytes), 4 * math.prod(change.shape)

    channels = change.sizes[1]
    check = partial(validate.layout, source=source, target=target, channels=channels)
    return executor.run(key, describe, [a], out, run, uris, check)


def _bound(*given: Any) -> bool:
    """Returns whether an operand is neither a numpy array nor an array of a Context.

    A core.Array or Constant is bound to a device, and a lazy expression has no elements yet: calls
    with them are not placed.
    """
    free = np.ndarray, ContextArray, ContextConstant
    return any(x is not None and not isinstance(x, free) for x in given)


def plain(executor: LocalExecutor, uris: Uris, operands: Sequence[Any], out: Any, run: Any) -> Any:
    """Runs a call without a plan: on the device of the first core.Array, else on the first device
    that is not lost.

    If that device fails or has no kernel for the call, the next device runs it.
    """
    check_own(executor, (*operands, out))
    if executor.unplaced is not None:
        raise executor.unplaced(operands)
    there = [x for x in (*operands, out) if isinstance(x, (Array, Constant))]
    held = [x.device.uri for x in there if not x.closed]
    bound = [uri for uri in held if uri in executor.devices][:1]
    nodes = executor.costs.nodes
    hung = executor.hung(uris)
    left = bound or [u for u in uris if not nodes[u].lost and u not in hung] or [uris[0]]
    failure: Exception | None = None
    while True:
        uri = left.pop(0)
        try:
            return _done(executor, uri, operands, out, run)
        except NotThere as error:
            if not left:
                raise failure or error from None
        except ways.CopyLost:  # an operand is lost, so no other device can do the work
            raise
        except FAILURES as error:
            executor.failed(uri, error)
            if not left or not may_be_redone(error, out):
                raise
            failure = error
            log.warning("%s: the call runs on another device: %s", uri, error)


def _done(executor: LocalExecutor, uri: str, operands: Sequence[Any], out: Any, run: Any) -> Any:
    """Runs the operation `run` on the device `uri`, and returns its result."""
    *there, target = here((*operands, out), uri)
    made = run(executor.devices[uri], there, target)
    if isinstance(out, ContextArray):
        out.wrote(uri)
        return out
    is_array = any(isinstance(x, ContextArray) for x in operands)
    return ContextArray(executor.own, uri, made) if is_array else made
