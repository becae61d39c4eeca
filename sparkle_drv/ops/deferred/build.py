"""Makes nodes of operators and ufuncs, or computes their results at once.

If no map of the device can compute an operation in numpy's types, numpy computes it at once on the
host. If code outside this package can write to the memory of an operand, a map computes the
operation at once. Any other operation is computed later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, TypeVar

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.array_shape import Shaped
from sparkle_drv.core.device import Device
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.arguments.quoting import shown
from sparkle_drv.ops.map.operation import fuses
from sparkle_drv.ops.shapes import space

from . import types
from .node import MOST_LEAVES, MOST_STEPS, DeferredNode, bindable, is_bindable

Shape = tuple[int, ...]
N = TypeVar("N", bound=DeferredNode)
MOST_KEPT = 4096
"""The most steps whose types a device keeps."""


def expression(name: str, operands: tuple[object, ...]) -> Array:
    """Returns numpy's ufunc `name` of `operands`, at least one of which is an Array.

    The other operands are Arrays, numbers or host arrays. Raises TypeError for operands or dtypes
    that the ufunc does not take. Raises ValueError if the shapes do not broadcast, the devices
    differ, or an Array is closed. Raises OverflowError where numpy does, for a number that its
    dtype cannot hold.
    """
    device = device_of(operands)
    with device._pending.waiting.lock:
        new, private = _step_of(device, name, operands)
        if not isinstance(new, DeferredNode):
            return new
        if private:
            return Array._deferred(new, new.dtype, new.shape)
        array: Array = new.run()
    if array._fence is not None:
        array._fence.wait()  # code outside this package may write to the operands at any time
    return array


def _step_of(
    device: Device, name: str, inputs: tuple[object, ...]
) -> tuple[DeferredNode | Array, bool]:
    """Returns (new node, whether it may wait) for `expression`, or (result of the host, False).

    A node must not wait if code outside this package can write to the memory of an operand. The
    caller has the lock of the arrays that wait.
    """
    operands: list[Any] = []
    kinds: list[Any] = []
    shapes: list[Shape] = []
    private = True
    for x in inputs:
        if not isinstance(x, Array):
            x = _operand(inputs, x)
        if not isinstance(x, Array):
            operands.append(x)
            kinds.append(kind_of(x))
            continue
        thunk = x._thunk
        if isinstance(thunk, DeferredNode):
            operands.append(thunk)
            kinds.append(thunk.kind)
        else:
            buffer = x.buffer
            private = private and not buffer._storage.exposed
            operands.append(bindable(x) if buffer.offset else x)
            kinds.append(x.dtype)
        shapes.append(x.shape)
    step = typed(device, (name, *kinds))
    shape = shapes[0] if shapes.count(shapes[0]) == len(shapes) else common(name, shapes)
    new = node(DeferredNode, device, step, tuple(operands), shape, len(shapes))
    return (on_host(device, name, operands), False) if new is None else (new, private)


def update(name: str, x: Array, operand: object) -> Array:
    """Does `x op= operand` by numpy's ufunc `name`, and returns x.

    An x that is not computed yet only gets a new expression.

    Raises the errors of `expression`, and TypeError if numpy's rule "same_kind" does not allow the
    result to be cast to the dtype of x.
    """
    if x.readonly:
        raise ValueError("in-place: expected a writable Array, got a read-only one")
    operands = (x, operand)
    device = device_of(operands)
    waiting = device._pending.waiting
    with waiting.lock:
        new, private = _step_of(device, name, operands)
        check_in_place(new, x)
        if isinstance(new, DeferredNode):
            same = new.dtype == x.dtype
            if same and private and x._thunk is not None:
                x._thunk = new
                return x
            if same and (x.dtype != types.BOOL or fuses(device)) and is_bindable(x):
                waiting.settle()  # expressions that were made before read the elements first
                try:
                    new.into(x)
                except BaseException:
                    queue = device.default_queue
                    x._fence = queue.fence(queue.submitted)  # the launch may have happened
                    raise
                new = x
            else:
                new = new.run()
    if new is not x:
        from .views import setitem

        setitem(x, ..., new)
    elif x.fence is not None:
        x.fence.wait()  # readers of other views of this memory do not wait for x's fence
    return x


def check_in_place(result: Any, x: Any) -> None:
    """Raises ValueError if `result` has not the shape of `x`. Raises TypeError if numpy's rule
    "same_kind" does not allow its cast to the dtype of `x`.
    """
    if result.shape != x.shape:
        raise ValueError(f"in-place: expected a result of shape {x.shape}, got {result.shape}")
    if not np.can_cast(result.dtype, x.dtype, "same_kind"):
        raise TypeError(f"in-place: a result of {result.dtype} does not fit {x.dtype}")


def device_of(operands: tuple[object, ...]) -> Device:
    """Returns the device of all Arrays in `operands`. Raises DeviceLost if the device is closed.

    Raises ValueError if the Arrays have several devices, or an Array is closed.
    """
    device: Device | None = None
    for x in operands:
        if isinstance(x, Array):
            thunk = x._thunk
            own = x.buffer._open().owner if thunk is None else thunk.device
            if own is not device and device is not None:
                other = device._another(own)
                raise ValueError(
                    f"operands: expected Arrays of one device, got {device.uri} and {other}"
                )
            device = own
    assert device is not None
    device._check_open()
    return device


def _operand(operands: tuple[object, ...], x: object) -> Any:
    """Returns a host array as an Array on the device of `operands`, or a number."""
    if isinstance(x, np.ndarray) and x.ndim:
        return device_of(operands).array(x)
    return number("an Array", x)


def number(besides: str, x: object) -> Any:
    """Returns a number in the form that expressions use.

    Raises TypeError if `x` is not a number. `besides` is a part of the message: it says what is
    allowed besides numbers.
    """
    if isinstance(x, (bool, int, float, complex, np.generic)):
        return np.bool_(x) if isinstance(x, bool) else x
    if isinstance(x, np.ndarray) and not x.ndim:
        return x[()]
    raise TypeError(
        f"operand: expected {besides}, a numpy array or a number, got {type(x).__name__} {shown(x)}"
    )


def kind_of(x: Any) -> Any:
    """Returns the kind of a number, as `typed` defines kinds."""
    if isinstance(x, np.generic):
        return (x.dtype,)
    return next(base for base in (int, float, complex) if isinstance(x, base))


def common(name: str, shapes: list[Shape]) -> Shape:
    try:
        return space.common(shapes)
    except ValueError:
        given = " and ".join(map(str, shapes))
        raise ValueError(f"{name}: expected shapes that broadcast, got {given}") from None


def node(
    kind: type[N], device: Any, step: types.TypedStep, operands: tuple[Any, ...], shape: Shape,
    arrays: int,
) -> N | None:  # fmt: skip
    """Returns an object of class `kind` that will compute `step` of an expression.

    Returns None if no map can compute the step.

    `arrays` says how many of the operands are arrays; the others are numbers.
    """
    dtype, op, tag = step
    if not op:
        return None
    if op == "ne" and len(operands) == 1:  # ~x or logical_not(x), computed as x != True
        operands = (*operands, np.True_)
    elif arrays < len(operands):
        for x in operands:
            if not isinstance(x, (DeferredNode, Shaped)) and not types.fits(x, tag):
                return None
        # numpy computes this power of float32 and float64 as a root: -inf gives NaN.
        root = op == "pow" and isinstance(operands[1], np.floating) and operands[1] == 0.5
        if root and dtype in (np.float32, np.float64):
            if operands[0].dtype == dtype:
                operands = (operands[0], 0.5)  # a map computes a root for a written exponent
            elif operands[0].dtype.kind == "f":
                return None  # the root comes after a conversion
    made = kind(device, op, operands, dtype, shape, tag)
    if made.steps <= MOST_STEPS and made.leaves <= MOST_LEAVES:
        return made
    computed = tuple(_computed(x) for x in operands)
    truths = any(getattr(x, "dtype", None) == types.BOOL for x in computed if isinstance(x, Shaped))
    if truths and not kind.reads_truths(device):
        return None
    return kind(device, op, computed, dtype, shape, tag)


def typed(device: Device, key: tuple[Any, ...]) -> types.TypedStep:
    """Returns the result of types.typed on this device.

    `key` has the arguments of types.typed: the name of a ufunc, then the kinds of its operands.
    The kind of an Array is its dtype, the kind of a DeferredNode its member `kind`. The kind of a
    numpy scalar is (dtype,); that of a Python number is its class.
    """
    steps = device.kept.get("ops steps")
    if steps is None:
        maps = frozenset(tag for tag in check.TYPES if device.provides(f"map_{tag}"))
        steps = lru_cache(MOST_KEPT)(partial(_typed, fuses(device), maps))
        device.kept["ops steps"] = steps
    step: types.TypedStep = steps(*key)
    return step


def _typed(wide: bool, maps: frozenset[str], name: str, *kinds: Any) -> types.TypedStep:
    """Does what `typed` does on a device that fuses maps (`wide`), or has maps of these types."""
    plain = tuple(k[0] if isinstance(k, tuple) else k for k in kinds)
    if name in types.INVERTS and plain[0] == types.BOOL:
        name, plain = "not_equal", (*plain, types.BOOL)
    dtype, op, tag = types.typed(name, plain)
    host = types.TypedStep(dtype, "", "")
    nodes = [k[1] for k in kinds if isinstance(k, tuple) and len(k) == 2]
    leaves = [check.tag_of(k) for k in kinds if isinstance(k, np.dtype)]
    if not op or "" in leaves:
        return host
    if not tag and not wide and len(nodes) < len(kinds):
        return host
    tag = tag or (nodes or ["bool"])[0]
    if not wide:
        own = check.DTYPES.get(dtype, tag if dtype == types.BOOL else "")
        if {own, *nodes, *leaves} != {tag} or tag not in maps:
            return host
    return types.TypedStep(dtype, op, tag)


def _computed(x: Any) -> Any:
    return x.run() if isinstance(x, DeferredNode) else x


def on_host(device: Device, name: str, operands: Sequence[Any]) -> Array:
    """Computes numpy's function `name` on the host; returns the result as an Array on `device`."""
    values = [x._host() if isinstance(x, Array) else x for x in map(_computed, operands)]
    given = " and ".join(str(np.result_type(x)) for x in values)
    return by_numpy(device, f"{name} of {given}", lambda: getattr(np, name)(*values))


def by_numpy(device: Device, what: str, compute: Callable[[], Any]) -> Array:
    """Returns what `compute` returns as an Array on `device`. `explain` says that `what` has no
    kernel.
    """
    with np.errstate(all="ignore"):
        array = device.array(np.asarray(compute()))
    array._origin = f"numpy on the host: {what} has no kernel on {device.uri}"
    return array
