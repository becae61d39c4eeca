"""Expression: a step over ContextArrays that is not computed yet; core's Thunk.

The scheduler keeps plans and times by the text of a map, so an expression is written as one.
"""

from __future__ import annotations

import math
from typing import Any

from sparkle_drv.core.array_shape import Shaped
from sparkle_drv.ops.deferred.node import Node
from sparkle_drv.ops.expression.grammar import SIGNS
from sparkle_drv.ops.map.operation import fuses


class Expression(Node):
    """`op` of `operands` (Expressions, ContextArrays, numbers); `device` is their executor."""

    __slots__ = ()

    @staticmethod
    def reads_truths(device: Any) -> bool:
        """See Node; `device` is an executor."""
        return any(map(fuses, device.devices.values()))

    def run(self, out: Any = None) -> Any:
        """See core's Thunk."""
        if self.made is None:
            written = _Written()
            self.made = self.device.context.map(written.text(self), **written.named)
        return self.made

    def explain(self) -> str:
        """See core's Thunk."""
        return f"one Context.map: {_Written().text(self)}, {self.dtype}{list(self.shape)}"


class _Written:
    """The names of a text and their values."""

    def __init__(self) -> None:
        self.named: dict[str, Any] = {}
        self._known: dict[int, str] = {}

    def text(self, x: Any) -> str:
        """An operand as the map has it."""
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
        """The name of an array or a number."""
        is_array = isinstance(x, Shaped)
        found = self._known.get(id(x)) if is_array else None
        if found is None:
            found = f"{'x' if is_array else 's'}{len(self.named)}"
            self.named[found] = x
            if is_array:
                self._known[id(x)] = found
        return found
