"""The functions of numpy that core calls for a ContextArray: see core/deferred/provider.py.

Maps, reductions and products of two matrices are calls of the Context. Other functions are done on
the device that has the array, as an Array's operators do them. A result that shares memory with the
array is copied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.arguments.check import NotThere
from sparkle_drv.ops.deferred import build, numpy_api, reductions, types, views
from sparkle_drv.ops.deferred.node import DeferredNode, ExpressionSteps
from sparkle_drv.ops.expression import promote
from sparkle_drv.ops.reduce.fold import axes_of
from sparkle_drv.sched.operations.table import EXPRESSION, MATRIX_PRODUCT, REDUCTION
from sparkle_drv.sched.operations.traffic import fuses
from sparkle_drv.sched.run import calls
from sparkle_drv.sched.run.arrays import ContextArray, check_own

__all__ = ["astype", "getitem", "matmul", "numpy_ufunc", "reduction", "setitem"]
__all__ += ["transpose", "ufunc", "update"]


class Expression(DeferredNode):
    """The operation `op` on Expressions, ContextArrays or numbers, which is not computed yet.
    `device` is the executor of their Context. It keeps plans and times by the graph.
    """

    __slots__ = ()
    where = "one Context.map"

    @staticmethod
    def reads_truths(device: Any) -> bool:
        """Returns whether maps on any device of an executor can read a bool array in memory."""
        return any(map(fuses, device.devices.values()))

    def run(self) -> Any:
        """Computes the array by one `Context.map` and keeps the result. See core's Thunk."""
        if self.made is None:
            written = ExpressionSteps(self)
            args = written.graph(), *written.leaves, *written.numbers
            self.made = calls.usual(self.device, EXPRESSION, args, {})
        return self.made


def ufunc(name: str, operands: tuple[object, ...]) -> ContextArray:
    """Returns numpy's ufunc `name` of ContextArrays, numbers and host arrays; at least one is a
    ContextArray.

    Raises TypeError for operands or dtypes that do not fit. Raises ValueError for shapes that do
    not fit, arrays of another Context, or closed ones.
    """
    first = _first(operands)
    with first._executor.waiting.lock:
        array = _result(first, name, operands)
        lent = any(isinstance(x, ContextArray) and x._lent for x in operands)
        if lent:
            array._ready()
    if lent and array.fence is not None:
        array.fence.wait()  # the caller may write to the operands at any time
    return array


def _result(first: ContextArray, name: str, args: tuple[object, ...]) -> ContextArray:
    """Returns the result of `ufunc`, which is computed later if a map can compute it."""
    executor = first._executor
    operands = tuple(_operand(first, x) for x in args)
    kinds: list[Any] = []
    shapes = []
    for x in operands:
        if isinstance(x, (Expression, ContextArray)):
            kinds.append(x.kind if isinstance(x, Expression) else x.dtype)
            shapes.append(x.shape)
        else:
            kinds.append(build.kind_of(x))
    step = _step(executor, name, kinds)
    shape = build.common(name, shapes)
    made = build.node(Expression, executor, step, operands, shape, len(shapes))
    if made is not None:
        return ContextArray._deferred(executor, made, made.dtype, shape)
    values = [x.run() if isinstance(x, Expression) else x for x in operands]
    host = [x.numpy() if isinstance(x, ContextArray) else x for x in values]
    uri = first.places[0]
    return ContextArray(executor, uri, build.on_host(executor.devices[uri], name, host))


def update(name: str, x: ContextArray, operand: object) -> ContextArray:
    """Computes `x op= operand` and returns x. Raises as `ufunc` does, and TypeError if the result
    does not fit x.
    """
    with x._executor.waiting.lock:
        result = ufunc(name, (x, operand))
        build.check_in_place(result, x)
        if x._thunk is not None and result._thunk is not None and result.dtype == x.dtype:
            x._thunk = result._thunk
            result.close()
            return x
    setitem(x, ..., result)
    return x


def numpy_ufunc(
    function: Any, method: str, inputs: tuple[object, ...], options: dict[str, Any]
) -> ContextArray:
    """Computes a call of a numpy ufunc such as np.sin(x). `out=` may be a ContextArray."""
    by = ContextArray, ufunc, matmul, setitem
    made: ContextArray = numpy_api.called(function, method, inputs, options, by)
    return made


def matmul(a: Any, b: Any) -> ContextArray:
    """Returns a @ b as numpy does. Products of two f32 or f64 matrices go to Context.gemm."""
    first = _first((a, b))
    check_own(first._executor, (a, b))
    for name, x in (("a", a), ("b", b)):
        if not isinstance(x, (ContextArray, np.ndarray)):
            got = type(x).__name__
            raise TypeError(f"{name}: expected a ContextArray or a numpy array, got {got}")
    plain = a.ndim == b.ndim == 2 and a.shape[1] == b.shape[0]
    if plain and a.dtype == b.dtype and check.DTYPES.get(a.dtype) in ("f32", "f64"):
        product: ContextArray = calls.usual(first._executor, MATRIX_PRODUCT, (a, b), {})
        return product
    uri = first.places[0]
    there = [x._read(uri) if isinstance(x, ContextArray) else x for x in (a, b)]
    return _own(first, first._read(uri), reductions.matmul(*there))


def reduction(x: ContextArray, op: str, axis: Any, keepdims: bool) -> ContextArray:
    """Reduces x by numpy's function `op`. See ContextArray."""
    tag = check.tag_of(x.dtype)
    known = tag and op in reductions.KERNELS and (op != "mean" or tag not in promote.SUMMED_IN)
    if known and x.size and axes_of(axis, x.ndim):
        try:
            how = {"keepdims": keepdims}
            made: ContextArray = calls.usual(x._executor, REDUCTION, (x, op, axis), how)
            return made
        except NotThere:
            pass
    array = x._nearest()
    return _own(x, array, reductions.reduction(array, op, axis, keepdims))


def setitem(x: ContextArray, key: object, value: object) -> None:
    """Assigns `x[key] = value` on the device that wrote x last. Copies on other devices become
    invalid.
    """
    check_own(x._executor, (x, value))
    x._executor.waiting.settle()
    uri = x.places[0]
    there = value._read(uri) if isinstance(value, ContextArray) else value
    views.setitem(x._read(uri), key, there)
    x.wrote(uri)


def _first(operands: tuple[Any, ...]) -> ContextArray:
    first: ContextArray = next(x for x in operands if isinstance(x, ContextArray))
    check_own(first._executor, (x for x in operands if isinstance(x, ContextArray)))
    first._executor.check_open()
    return first


def _step(executor: Any, name: str, kinds: list[Any]) -> types.TypedStep:
    """Returns the step `name` with its types, for the first device whose maps can compute it.
    Devices differ in the types that they store.

    The step has no operation if no device can compute it.
    """
    steps = [build.typed(device, (name, *kinds)) for device in executor.devices.values()]
    return next((step for step in steps if step.op), steps[0])


def _operand(first: ContextArray, x: object) -> Any:
    """Returns an operand as an Expression, a computed ContextArray, or a number."""
    if isinstance(x, ContextArray):
        if isinstance(x._thunk, Expression):
            return x._thunk
        x._ready()
        return x
    if isinstance(x, np.ndarray) and x.ndim:
        uri = first.places[0]
        return ContextArray(first._executor, uri, first._executor.devices[uri].array(x))
    return build.number("a ContextArray", x)


def _own(x: ContextArray, source: Array, array: Array) -> ContextArray:
    """Returns the Array `array`, computed from `source`, as a ContextArray. If `array` shares the
    memory of `source`, it is copied first.
    """
    if array.buffer._storage is source.buffer._storage:
        array = views.copy(array)
    return ContextArray(x._executor, source.device.uri, array)


def _copying(view: Callable[[Array, Any], Array]) -> Callable[[ContextArray, Any], ContextArray]:
    """Returns a function that does the same for a ContextArray, and returns a copy."""

    def function(x: ContextArray, given: Any) -> ContextArray:
        array = x._nearest()
        return _own(x, array, view(array, given))

    return function


getitem, transpose, astype = map(_copying, (views.getitem, views.transpose, views.astype))
