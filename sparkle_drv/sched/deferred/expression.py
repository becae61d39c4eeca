"""Expression: a step over ContextArrays that is not computed yet. It implements core's Thunk.

The scheduler keeps plans and times by the text of a map. So Expression.run, which computes the
step, first writes it as text.
"""

from __future__ import annotations

import math
from typing import Any

from sparkle_drv.core.array_shape import Shaped
from sparkle_drv.ops.deferred.node import Node
from sparkle_drv.ops.expression.grammar import SIGNS
from sparkle_drv.ops.map.operation import fuses


class Expression(Node):
    """An expression that is not computed yet: the operation `op` on `operands`, which are
    Expressions, ContextArrays or numbers. `device` is the executor of their Context.
    """

    __slots__ = ()

    @staticmethod
    def reads_truths(device: Any) -> bool:
        """Returns whether maps on any of the devices can read a bool array in memory. `device` is
        the executor, which has these devices.
        """
        return any(map(fuses, device.devices.values()))

    def run(self, out: Any = None) -> Any:
        """Computes the array by one `Context.map` and keeps the result. See core's Thunk."""
        if self.made is None:
            written = _Written()
            self.made = self.device.context.map(written.text(self), **written.named)
        return self.made

    def explain(self) -> str:
        """Describes the one `Context.map` that will compute the array. See core's Thunk."""
        return f"one Context.map: {_Written().text(self)}, {self.dtype}{list(self.shape)}"


class _Written:
    """Writes an expression as text. `named` maps the text's names to values."""

    def __init__(self) -> None:
        self.named: dict[str, Any] = {}
        self._known: dict[int, str] = {}

    def text(self, x: Any) -> str:
        """Returns the text of an operand in the expression of the map."""
        if isinstance(x, Node) and x.made is not None and x.readable:
            x = x.made
        if not isinstance(x, Node):
            return self.name(x)
        parts = [
            f"({o!r})"
            if x.op == "pow" and i == 1 and type(o) in (int, float) and math.isfinite(o)
            else self.text(o)
            for i, o in enumerate(x.operands)
        ]
        sign = SIGNS.get(x.op)
        return f"({f' {sign} '.join(parts)})" if sign else f"{x.op}({', '.join(parts)})"

    def name(self, x: Any) -> str:
        """Returns the name of an array or a number. An array that occurs twice has one name."""
        is_array = isinstance(x, Shaped)
        found = self._known.get(id(x)) if is_array else None
        if found is None:
            found = f"{'x' if is_array else 's'}{len(self.named)}"
            self.named[found] = x
            if is_array:
                self._known[id(x)] = found
        return found
