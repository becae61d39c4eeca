"""Counts the bytes that a task reads and writes on its device, which shows what fusing saves. All
functions are pure.

Each array that a task reads counts once, and its result counts once. Extra work of `ops` counts,
too. On devices other than the cpu, a map first copies operands that are broadcast. A reduction of
an expression writes the expression's values and reads them again. A change of layout between NHWC
and a blocked one goes through NCHW. A fold (graph/fuse/fold.py) reads and writes weights in each
run, unless they are constant. Working memory of an algorithm (im2col, packed weights) does not
count.
"""

from __future__ import annotations

from sparkle_drv.sched.model.graph_plan import Traffic
from sparkle_drv.sched.model.task import Task

from .map import fuses
from .table import OPERATIONS

__all__ = ["Traffic", "fuses", "traffic"]


def traffic(task: Task, fuses: bool) -> Traffic:
    """Returns the traffic of one task. `fuses` says that the task's device computes a map in one
    pass (ops/map/operation.py).
    """
    arrays = dict.fromkeys(task.reads.values())
    reads = sum(value.nbytes for value in arrays)
    writes = task.out.nbytes
    if task.fold is not None:
        weights = task.reads[task.fold.weights]
        if task.fold.scale is not None and not weights.constant:
            reads += weights.nbytes
            writes += weights.nbytes
        reads += sum(v.nbytes for v in task.fold.reads.values() if v not in arrays)
    more_reads, more_writes = OPERATIONS[task.op].beside_nbytes(task, fuses)
    return Traffic(reads + more_reads, writes + more_writes)
