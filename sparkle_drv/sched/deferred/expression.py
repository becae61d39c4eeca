"""Expression: a step over ContextArrays that is not computed yet. It implements core's Thunk.

The scheduler keeps plans and times by the text of a map. So Expression.run, which computes the
step, first writes it as text.
"""

from __future__ import annotations

from typing import Any

from sparkle_drv.ops.deferred.node import Node, Text
from sparkle_drv.ops.map.operation import fuses


class Expression(Node):
    """An expression that is not computed yet: the operation `op` on `operands`, which are
    Expressions, ContextArrays or numbers. `device` is the executor of their Context.
    """

    __slots__ = ()
    where = "one Context.map"

    @staticmethod
    def reads_truths(device: Any) -> bool:
        """Returns whether maps on any of the devices can read a bool array in memory. `device` is
        the executor, which has these devices.
        """
        return any(map(fuses, device.devices.values()))

    def run(self) -> Any:
        """Computes the array by one `Context.map` and keeps the result. See core's Thunk."""
        if self.made is None:
            text = Text()
            expression = text.of_operand(self)
            self.made = self.device.context.map(expression, **text.named)
        return self.made
