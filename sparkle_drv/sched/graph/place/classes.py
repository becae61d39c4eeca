"""The class of work of a graph's task, for the cost model, and the task's size.

A product or reduction of arrays has the same class as the same call outside of a graph
(model/operations.py). The time of an expression is predicted from its operations
(model/expressions.py).
"""

from __future__ import annotations

import math

from sparkle_drv.sched.model.expressions import task_class
from sparkle_drv.sched.model.operations import (
    Class,
    conv2d_class,
    gemm_class,
    layout_class,
    reduce_class,
)
from sparkle_drv.sched.model.task import Task
from sparkle_drv.sched.model.traffic import traffic


def class_of(task: Task) -> tuple[Class, float]:
    """Returns the class of work of a task, and its size."""
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
    size = float(traffic(task, fuses=True).nbytes)
    count = math.prod(task.common)
    # An empty array has no bytes per element: any number will do.
    nbytes = size / count if count and size else 1.0
    return task_class(task.op, task.expression, task.reads, task.numbers, nbytes), size
