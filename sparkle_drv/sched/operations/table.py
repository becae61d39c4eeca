"""The operations by name. A sixth one is a line here and a module beside this one."""

from __future__ import annotations

from sparkle_drv.sched.model.task import Task

from .conv2d import Conv2dOperation
from .dispatch import DispatchOperation
from .gemm import GemmOperation
from .layout import LAYOUT, change_task, is_change
from .map import MapOperation
from .operation import Operation
from .reduce import ReduceOperation

__all__ = ["CONV2D", "GEMM", "LAYOUT", "MAP", "OPERATIONS", "REDUCE"]
__all__ += [
    "EXPRESSION",
    "MATRIX_PRODUCT",
    "REDUCTION",
    "DispatchOperation",
    "change_task",
    "is_change",
    "operation_of",
]
GEMM, CONV2D, MAP, REDUCE = GemmOperation(), Conv2dOperation(), MapOperation(), ReduceOperation()
OPERATIONS: dict[str, Operation] = {
    operation.name: operation for operation in (GEMM, CONV2D, MAP, REDUCE, LAYOUT)
}

PEAK = "gemm_f32"
"""The class of work that shows a device's peak of float32."""
MATRIX_PRODUCT, EXPRESSION, REDUCTION = GEMM, MAP, REDUCE
"""The operations that numpy's operators on arrays stand for."""


def operation_of(task: Task) -> Operation:
    """Returns the operation of a task."""
    return OPERATIONS[task.op]


def rate_unit(work_class: str) -> str:
    """Returns the unit of the rate of a class of work, by its name."""
    rates = {x.name: x.rate for x in OPERATIONS.values()} | {
        DispatchOperation.name: DispatchOperation.rate
    }
    known = (rate for name, rate in rates.items() if work_class.startswith(name))
    return next(known, Operation.rate)
