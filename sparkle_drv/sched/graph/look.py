"""How a task of a graph is looked at (validate.py): its operands, and the check if there is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.ops import staging
from sparkle_drv.ops.geometry import geometry
from sparkle_drv.ops.reduce import outline

from .. import validate
from ..validate import Check
from .compose import as_text
from .data import Task

_SHAPE = ("stride", "padding", "dilation", "groups", "layout")
Host = np.ndarray[Any, Any]
F32 = np.dtype(np.float32)


def copies(task: Task, reads: Mapping[str, Any]) -> dict[str, Host]:
    """The operands as they are before the task, which may be written over one of them. Waits."""
    found = {}
    for name, x in reads.items():
        if isinstance(x, Array) and x.fence is not None:
            x.fence.wait(staging.WAIT_S)
        found[name] = np.array(x.numpy() if isinstance(x, Array) else x)
    return found


def wrong(task: Task, made: Array, given: Mapping[str, Host], chance: np.random.Generator) -> str:
    """What is wrong with a result; "": nothing, or there is no check for such a task."""
    found = _check(task, given)
    if found is None:
        return ""
    check, operands, shape = found
    if made.fence is not None:
        made.fence.wait(staging.WAIT_S)
    return check(made.numpy().reshape(shape), operands, chance)


def _check(
    task: Task, given: Mapping[str, Host]
) -> tuple[Check, Sequence[Host | None], tuple[int, ...]] | None:
    """(check, operands in its order, shape that it wants of the result)."""
    shape = task.out.shape
    bias = given["bias"].reshape(-1) if "bias" in given else None
    act = task.options.get("activation")
    if task.op == "gemm":
        return partial(validate.gemm, activation=act), (given["a"], given["b"], bias), shape
    if task.op == "conv2d":
        x, w = given["x"], given["w"]
        form = geometry(x.shape, w.shape, *(task.options[name] for name in _SHAPE))
        made: Callable[..., str] = partial(validate.conv2d, shape=form, activation=act)
        return made, (x, w, bias), shape
    if task.op == "map" and task.expression is not None:
        text = as_text(task.expression)
        operands = [np.broadcast_to(x, shape) for x in given.values()]
        check = partial(
            validate.map, expression=text, names=tuple(given), numbers=dict(task.numbers)
        )
        return (check, operands, shape) if text else None
    if task.op == "layout":
        return partial(validate.layout, **task.options), (given["a"],), shape
    op, axis = task.options["op"], task.options["axis"]
    if task.expression is not None:
        text, common = as_text(task.expression), task.common
        operands = [np.broadcast_to(x, common) for x in given.values()]
        _, flat, _ = outline(np.broadcast_to(np.zeros((), F32), common), op, axis, False)
        check = partial(
            validate.fold, expression=text, names=tuple(given), numbers=dict(task.numbers),
            op=op, axis=axis,
        )  # fmt: skip
        return (check, operands, flat) if text else None
    _, flat, _ = outline(given["a"], op, axis, False)
    return partial(validate.reduce, op=op, axis=axis), (given["a"],), flat
