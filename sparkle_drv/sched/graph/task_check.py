"""Checks the result of a task of a graph with validate.py. Copies the operands for the check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.sched.check import validate
from sparkle_drv.sched.check.validate import Check
from sparkle_drv.sched.graph.fuse.compose import as_text
from sparkle_drv.sched.model.task import Task

Host = np.ndarray[Any, Any]


def copies(task: Task, reads: Mapping[str, Any]) -> dict[str, Host]:
    """Returns copies of the operands of a task, after a wait for the work that computes them.

    The copies are made before the task runs, because the task may overwrite an operand.
    """
    found = {}
    for name, x in reads.items():
        if isinstance(x, Array) and x.fence is not None:
            x.fence.wait()
        found[name] = np.array(x.numpy() if isinstance(x, Array) else x)
    return found


def wrong(task: Task, made: Array, given: Mapping[str, Host], chance: np.random.Generator) -> str:
    """Returns a description of the error in a result, or "" if it is right or no check exists for
    such a task.
    """
    found = _check(task, given)
    if found is None:
        return ""
    check, operands = found
    if made.fence is not None:
        made.fence.wait()
    return check(made.numpy(), operands, chance)


def _check(task: Task, given: Mapping[str, Host]) -> tuple[Check, Sequence[Host | None]] | None:
    """Returns the check for a task, and the operands in the order of the check's parameters.

    Returns None if there is no check for such a task.
    """
    bias = given["bias"].reshape(-1) if "bias" in given else None
    act = task.options.get("activation")
    if task.op == "gemm":
        return partial(validate.gemm, activation=act), (given["a"], given["b"], bias)
    if task.op == "conv2d":
        made: Callable[..., str] = partial(validate.conv2d, shape=task.geometry, activation=act)
        return made, (given["x"], given["w"], bias)
    if task.op == "layout":
        return partial(validate.layout, **task.options), (given["a"],)
    how = {name: task.options[name] for name in ("op", "axis") if task.op == "reduce"}
    if task.expression is None:
        return partial(validate.reduce, **how), (given["a"],)
    text = as_text(task.expression)
    look: Callable[..., str] = validate.map if task.op == "map" else validate.fold
    check = partial(look, expression=text, names=tuple(given), numbers=dict(task.numbers), **how)
    return (check, list(given.values())) if text else None
