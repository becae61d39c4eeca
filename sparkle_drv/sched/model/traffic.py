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

import math
from dataclasses import dataclass

from .task import Task


@dataclass(frozen=True)
class Traffic:
    """Bytes that a task reads and writes."""

    reads_nbytes: int
    writes_nbytes: int

    @property
    def nbytes(self) -> int:
        """The sum of bytes read and written."""
        return self.reads_nbytes + self.writes_nbytes


def traffic(task: Task, fuses: bool) -> Traffic:
    """Returns the traffic of one task. `fuses` says that the task's device computes a map in one
    pass (ops/map/operation.py).
    """
    arrays = dict.fromkeys(task.reads.values())
    reads = sum(value.nbytes for value in arrays)
    writes = task.out.nbytes
    if task.fold is not None:
        weights = task.reads[task.weights]
        if task.fold.scale is not None and not weights.constant:
            reads += weights.nbytes
            writes += weights.nbytes
        reads += sum(v.nbytes for v in task.fold.reads.values() if v not in arrays)
    if task.op == "layout" and "NCHW" not in (task.options["source"], task.options["target"]):
        # A change between two other layouts goes through an array in NCHW. That array is the
        # smallest of the three, since it has no padding.
        whole = min(task.reads["a"].nbytes, task.out.nbytes)
        reads, writes = reads + whole, writes + whole
    if task.expression is not None and not fuses:
        shape = task.common
        whole = math.prod(shape)
        for value in arrays:
            if value.shape != shape:
                reads += whole * value.dtype.itemsize
                writes += whole * value.dtype.itemsize
        if task.op == "reduce":
            made = whole * max(value.dtype.itemsize for value in arrays)
            reads, writes = reads + made, writes + made
    return Traffic(reads, writes)
