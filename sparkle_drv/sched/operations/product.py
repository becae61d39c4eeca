"""What the products have in common: those of matrices and convolutions."""

from __future__ import annotations

from typing import Any

from sparkle_drv.ops.memory.constant import Constant
from sparkle_drv.sched.model.task import Task

from .operation import Operation


class Product(Operation):
    """An operation that adds a bias and applies an activation to its products. A map that reads
    only the result may become this epilogue.
    """

    weights = ""
    """The operand with the output channels."""

    def channels(self, task: Task) -> int:
        """Returns the axis of the result along which the bias lies."""
        return -1

    def scaled(self, weights: Any, scale: Any) -> Any:
        """Returns weights on the host, scaled by one number for each output channel."""
        return weights * scale


def row(bias: Any) -> Any:
    """Returns a bias as a row [n], whichever axis it was along. None stays None."""
    if isinstance(bias, Constant):
        bias = bias.array("bias", bias.device)
    return bias if bias is None or bias.ndim == 1 else bias.reshape(-1)
