"""The class of work of a task, for the cost model, and its size.

Products and reductions of arrays have the class of single calls (model/operations.py). Expressions
are classed by their operations per element. Each expression as a class of its own would cost too
many probes: a graph has many.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkle_drv import ops
from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.ops.expression.graph import Graph
from sparkle_drv.sched.graph.fuse.compose import operations as count
from sparkle_drv.sched.model.operations import (
    Class,
    Runs,
    conv2d_class,
    gemm_class,
    layout_class,
    reduce_class,
    rows_like,
    stored,
    tag_of,
)
from sparkle_drv.sched.model.task import Task
from sparkle_drv.sched.model.traffic import traffic

_DEAR = frozenset({"exp", "log", "tanh", "sigmoid", "sin", "cos", "pow"})


def class_of(task: Task) -> tuple[Class, float]:
    """(class, size) of a task."""
    if task.op == "gemm":
        (m, k), n = task.reads["a"].shape, task.out.shape[1]
        return gemm_class(m, n, k, task.out.dtype)
    if task.op == "conv2d":
        return conv2d_class(task.geometry)
    if task.op == "layout":
        kind = layout_class(task.options["source"], task.options["target"])
        return kind, float(task.reads["a"].nbytes)
    if task.expression is None:
        a = task.reads["a"]
        return reduce_class(task.options["op"], a.dtype), float(a.nbytes)
    return _expression(task), float(traffic(task, fuses=True).nbytes)


def _expression(task: Task) -> Class:
    graph = task.expression
    assert graph is not None
    dear = any(node.op in _DEAR for node in graph.nodes)
    steps = 1 << max(0, count(graph) - 1).bit_length()  # up to the next power of two
    broadcast = any(value.shape != task.common for value in task.reads.values())
    kinds = sorted({tag_of(value.dtype) for value in (*task.reads.values(), task.out)})
    name = f"map_{'_'.join(kinds)}" if task.op == "map" else f"reduce_{'_'.join(kinds)}"
    name += f":{steps} operations" + ", dear" * dear + ", broadcast" * broadcast

    def probe(dev: Device, i: int) -> Runs:
        shapes = rows_like({n: v.shape for n, v in task.reads.items()}, 16 * 4**i)
        arrays = {n: stored(dev, shapes[n], v.dtype) for n, v in task.reads.items()}
        nbytes = float(sum(x.nbytes for x in arrays.values()))
        made = ops.map(dev, graph, **arrays, **task.numbers)  # an unsupported class raises here
        if task.op == "reduce":
            lazy = _lazy(graph, arrays, task.numbers)
            return lambda: ops.reduce(dev, lazy, "sum"), nbytes
        return lambda: ops.map(dev, graph, out=made, **arrays, **task.numbers), nbytes + made.nbytes

    return Class(name, probe)


def _lazy(graph: Graph, arrays: Mapping[str, Array], numbers: Mapping[str, Any]) -> Any:
    return ops.lazy(graph, **arrays, **numbers)
