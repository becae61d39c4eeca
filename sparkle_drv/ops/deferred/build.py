"""Operators and ufuncs of numpy to nodes, or at once to numpy on the host.

A step waits if a map of the device computes it in numpy's types, over memory that nobody else can
write to. Anything else is computed at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.arguments.words import shown
from sparkle_drv.ops.map.operation import fuses
from sparkle_drv.ops.shapes import space

from . import types
from .node import MOST_LEAVES, MOST_STEPS, Node, bindable, is_bindable

Shape = tuple[int, ...]


def expression(name: str, given: tuple[object, ...]) -> Array:
    """numpy's `name` of Arrays, numbers and host arrays, one of them an Array at least.

    Raises TypeError (operands, dtypes), ValueError (shapes, devices, closed), OverflowError.
    """
    device = device_of(given)
    operands = tuple(_operand(device, x) for x in given)
    node = _node(device, name, operands)
    if node is None:
        return on_host(device, name, operands)
    if not _is_private(node.operands):
        made = node.run()
        if made.fence is not None:
            made.fence.wait()  # who can write to the operands does not know this fence
        return made
    return Array._deferred(node, node.dtype, node.shape)


def update(name: str, x: Array, operand: object) -> Array:
    """`x op= operand`: returns x. What is not computed yet gets another expression.

    Raises as `expression`, and TypeError: the result has another kind of dtype.
    """
    if x.readonly:
        raise ValueError("in-place: expected a writable Array, got a read-only one")
    made = expression(name, (x, operand))
    if made.shape != x.shape:
        raise ValueError(f"in-place: expected a result of shape {x.shape}, got {made.shape}")
    if not np.can_cast(made.dtype, x.dtype, "same_kind"):
        raise TypeError(f"in-place: a result of {made.dtype} does not fit {x.dtype}")
    thunk = made._thunk
    if isinstance(thunk, Node) and thunk.dtype == x.dtype:
        if x._thunk is not None:
            x._thunk = thunk
            return x
        if (x.dtype != types.BOOL or fuses(x.device)) and is_bindable(x):
            made.close()
            x.device._pending.settle(x.device, wait=False)
            thunk.run(x)
            thunk.made = None
            if x.fence is not None:
                x.fence.wait()  # other views of this memory know nothing of the fence
            return x
    from .views import assign

    assign(x, ..., made)
    return x


def device_of(given: tuple[object, ...]) -> Device:
    """That of all Arrays; ValueError: they have several."""
    device: Device | None = None
    for x in given:
        if isinstance(x, Array):
            own = x.device
            if device is None:
                device = own
            elif own is not device:
                other = device._another(own)
                raise ValueError(
                    f"operands: expected Arrays of one device, got {device.uri} and {other}"
                )
    assert device is not None
    return device


def _operand(device: Device, x: object) -> Any:
    """A Node, an Array with memory, or a number."""
    if isinstance(x, Array):
        thunk = x._thunk
        return thunk if isinstance(thunk, Node) else _ready(x)
    if isinstance(x, (bool, int, float, complex, np.generic)):
        return np.bool_(x) if isinstance(x, bool) else x
    if isinstance(x, np.ndarray):
        return device.array(x) if x.ndim else x[()]
    raise TypeError(
        f"operand: expected an Array, a numpy array or a number, got {type(x).__name__} {shown(x)}"
    )


def _ready(x: Array) -> Array:
    x.buffer._open()
    return bindable(x)


def _node(device: Device, name: str, operands: tuple[Any, ...]) -> Node | None:
    """The step; None: no map of this device computes it."""
    wide = fuses(device)
    if name in types.INVERTS and operands[0].dtype == types.BOOL:
        name, operands = "not_equal", (*operands, np.True_)
    kinds = tuple(_kind(x) for x in operands)
    dtype, op, tag = types.typed(name, kinds)
    shape = _shape(name, operands)
    if not op:
        return None
    if not tag:
        if not wide and not all(isinstance(x, Node) for x in operands):
            return None
        tag = getattr(operands[0], "tag", "bool")
    for x in operands:
        if isinstance(x, Node):
            if not wide and x.tag != tag:
                return None
        elif isinstance(x, Array):
            own = check.tag_of(x.dtype)
            if not own or (not wide and own != tag):
                return None
        elif not types.fits(x, tag):
            return None
    if not wide and (
        not device.provides(f"map_{tag}")
        or check.DTYPES.get(dtype, tag if dtype == types.BOOL else "") != tag
    ):
        return None
    node = Node(device, op, operands, dtype, shape, tag)
    if node.steps <= MOST_STEPS and node.leaves <= MOST_LEAVES:
        return node
    computed = tuple(_computed(x) for x in operands)
    if not wide and any(isinstance(x, Array) and x.dtype == types.BOOL for x in computed):
        return None
    return Node(device, op, computed, dtype, shape, tag)


def _kind(x: Any) -> types.Kind:
    if isinstance(x, (Node, Array, np.generic)):
        return x.dtype
    return type(x) if type(x) in (int, float, complex) else _base(x)


def _base(x: Any) -> type:
    return next(kind for kind in (int, float, complex) if isinstance(x, kind))


def _shape(name: str, operands: tuple[Any, ...]) -> Shape:
    shapes = [x.shape for x in operands if isinstance(x, (Node, Array))]
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    try:
        return space.common(shapes)
    except ValueError:
        given = " and ".join(map(str, shapes))
        raise ValueError(f"{name}: expected shapes that broadcast, got {given}") from None


def _computed(x: Any) -> Any:
    return x.run() if isinstance(x, Node) else x


def _is_private(operands: tuple[Any, ...]) -> bool:
    """Can nobody else write to the memory of the Arrays? That of nodes was looked at before."""
    return not any(isinstance(x, Array) and x.buffer._open().exposed for x in operands)


def on_host(device: Device, name: str, operands: tuple[Any, ...]) -> Array:
    """numpy's `name`, and its result on the device."""
    values = [x._host() if isinstance(x, Array) else x for x in map(_computed, operands)]
    with np.errstate(all="ignore"):
        made = device.array(np.asarray(getattr(np, name)(*values)))
    given = " and ".join(str(np.result_type(x)) for x in values)
    made._origin = f"numpy on the host: {name} of {given} has no kernel on {device.uri}"
    return made
