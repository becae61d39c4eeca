"""Applies a Fold to weights and bias, on the host, or reports that the fold is not exact enough.

The computation is in float64 and rounds once, so each weight is off by half an ulp. A sum of k
terms is then off by 0.3 eps * sqrt(k) times a term. The tolerance is 4 eps * sqrt(k) times a term
(ops/ref/tolerances.py). This bound holds for normal numbers only, so a fold is refused where a
weight would leave their range.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkle_drv.ops.expression.elementwise import ELEMENTWISE
from sparkle_drv.ops.expression.graph import Graph
from sparkle_drv.sched.model.task import Task
from sparkle_drv.sched.operations.product import Product
from sparkle_drv.sched.operations.table import operation_of
from sparkle_drv.sched.run.constants import ContextConstant

Host = npt.NDArray[Any]


def folded(task: Task, arrays: Mapping[int, Any]) -> dict[str, Host] | None:
    """Returns the arrays that a product with a Fold reads in place of the operands `task.folded`.

    Returns None if the fold cannot be applied to the weights and the bias with the same result.
    `arrays` maps `Value.number` to the array of that Value.
    """
    fold = task.fold
    assert fold is not None
    names = {name: _host(arrays[value.number]) for name, value in fold.reads.items()}
    operation = operation_of(task)
    assert isinstance(operation, Product)
    channels = task.out.shape[operation.channels(task)]
    changed: dict[str, Host] = {}
    with np.errstate(all="ignore"):
        scale = _each(fold.scale, names, channels)
        shift = _each(fold.shift, names, channels)
        if fold.positive and not (scale is None or bool(np.all(scale > 0))):
            return None
        if scale is not None:
            weights = _host(arrays[task.reads[fold.weights].number])
            made = operation.scaled(weights, scale).astype(weights.dtype)
            if not _normal(made, weights):
                return None
            changed[fold.weights] = made
        bias = _host(arrays[task.reads["bias"].number]) if "bias" in task.reads else None
        if bias is None and shift is None:
            return changed
        total = np.zeros(channels) if bias is None else bias * (1.0 if scale is None else scale)
        total = total if shift is None else total + shift
        changed["bias"] = rounded = total.astype(task.out.dtype)
    # A bias that is not finite before the rounding is allowed. If the rounding itself overflows,
    # the fold is refused.
    return None if np.any(np.isfinite(total) & ~np.isfinite(rounded)) else changed


def _host(given: Any) -> Host:
    """Returns the elements of a numpy array or a ContextConstant."""
    return given.host() if isinstance(given, ContextConstant) else given


def _each(graph: Graph | None, names: Mapping[str, Host], channels: int) -> Host | None:
    """Returns the value of an expression per channel: float64 [channels]."""
    if graph is None:
        return None
    values: list[Any] = []
    for node in graph.nodes:
        if node.op == "name":
            values.append(names[str(node.value)].reshape(-1).astype(np.float64))
        elif node.op == "number":
            values.append(np.float64(node.value))
        else:
            values.append(ELEMENTWISE[node.op](*(np.asarray(values[a]) for a in node.args)))
    return np.broadcast_to(np.asarray(values[-1], np.float64), (channels,))


def _normal(weights: Host, before: Host) -> bool:
    """Returns whether each weight is still a normal number, or unchanged because it was 0 or not
    finite.
    """
    least = np.finfo(weights.dtype).tiny
    normal = np.isfinite(weights) & (np.abs(weights) >= least)
    same = (before == 0) | ~np.isfinite(before)
    return bool(np.all(normal | same))
