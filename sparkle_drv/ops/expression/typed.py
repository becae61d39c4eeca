"""The typed program of a graph: each node that is no scalar gets a type by numpy's rules.

The conversions (`promote.py`) are written down; x**3 becomes products, x/4 a product, and equal
values are one. Pure: no device, no arrays. `lower.py` makes instructions of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sparkle_drv.ops.arguments.words import shown

from . import promote
from .graph import OF_TRUTHS, Graph, Node

TYPES = {"f32": 0, "f64": 1, "i32": 2}
"""What elements may be, by their numbers in sp_map.h."""
MOST_POWER = 8  # a whole exponent up to which a power of reals is products: (n - 1) / 2 ulp at most


@dataclass(slots=True)
class Value:
    """One value of the typed program: "input" (`source`: its name), "const" (`source`: a number),
    "scalar" (`source`: the number of its node), or an operation over earlier values.
    """

    op: str
    type: str
    args: tuple[int, ...] = ()
    source: Any = None


def typed(graph: Graph, arrays: dict[str, str], scalars: dict[int, str]) -> list[Value]:
    """The values that a graph becomes, the last being the result.

    `arrays` and `scalars` have their kinds (promote.py), by name and by node. TypeError: a type
    that is not f32, f64 or i32 on the way or at the end.
    """
    made = _Typed(graph)
    kind_at = dict(scalars)
    for i, node in enumerate(graph.nodes):
        if node.op == "name" and node.value in arrays:
            kind_at[i] = arrays[str(node.value)]
            made.number[i] = made.add("input", kind_at[i], (), node.value)
        elif i not in scalars:
            met, kind_at[i] = promote.rule_of(graph, node, tuple(kind_at[a] for a in node.args))
            if node.op == "where" and met in promote.WEAK:  # numpy makes an array of its own
                met = kind_at[i] = {"float": "f64", "int": "int64"}[met]
            if met not in (*TYPES, "bool"):
                what = f"{node.op} is {promote.dtype_name(met)} here, and there are f32, f64"
                graph.fail(node, f"{what} and i32", TypeError)
            made.number[i] = made.operation(node, met)
    last = len(graph.nodes) - 1
    if last in scalars:
        what = "the result is one number, which no array has part in"
        graph.fail(graph.nodes[last], what, TypeError)
    if kind_at[last] not in TYPES:
        what = (
            f"the result would be {promote.dtype_name(kind_at[last])}, and there are float32, "
            "float64 and int32: choose numbers with where(condition, a, b)"
        )
        graph.fail(graph.nodes[last], what, TypeError)
    return made.values[: made.number[last] + 1]


class _Typed:
    """The values of a graph; equal ones are one. `number`: the value of each node that has one."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values: list[Value] = []
        self.number: dict[int, int] = {}
        self._known: dict[Any, int] = {}

    def add(self, op: str, kind: str, args: tuple[int, ...] = (), source: Any = None) -> int:
        found = self._known.setdefault((op, kind, args, repr(source)), len(self.values))
        if found == len(self.values):
            self.values.append(Value(op, kind, args, source))
        return found

    def operand(self, i: int, kind: str) -> int:
        """Node i in this type: an element, a number as it is written, or one of each call."""
        found = self.number.get(i)
        if found is not None:
            same = self.values[found].type == kind
            return found if same else self.add("convert", kind, (found,))
        node = self.graph.nodes[i]
        if node.op != "number":
            return self.add("scalar", kind, (), i)
        return self.add("const", kind, (), promote.fitted(self.graph, i, node.value, kind))

    def operation(self, node: Node, met: str) -> int:
        op = node.op
        if met == "bool":  # 0 or 1, in the type that the comparison was made in
            elements = (self.number[a] for a in node.args if a in self.number)
            met = self.values[next(elements)].type
            if op in ("abs", "relu", "square", "floor"):
                return self.number[node.args[0]]
            op = OF_TRUTHS[op]
        if op == "pow":
            return self.power(node, met)
        args = [self.operand(a, met) for a in node.args]
        if op == "floor" and met == "i32":
            return args[0]
        if op == "square":
            op, args = "mul", args * 2
        if op == "div":
            divisor = self.graph.nodes[node.args[1]].value
            if not isinstance(divisor, str) and _is_power_of_two(divisor):
                op, args[1] = "mul", self.add("const", met, (), 1.0 / divisor)
        return self.add(op, met, tuple(args))

    def power(self, node: Node, met: str) -> int:
        base, exponent = node.args
        written = self.graph.nodes[exponent]
        whole = None
        if base in self.number and not isinstance(written.value, str) and written.value % 1 == 0:
            whole = int(written.value)
        if met == "i32":
            if whole is None:
                what = "i32 has powers with an exponent that is written as a number"
                self.graph.fail(node, what, TypeError)
            if whole >= 2**31:
                self.graph.fail(written, f"{shown(whole)} does not fit i32")
            if whole < 0:
                self.graph.fail(node, "integers to negative integer powers are not allowed")
        elif whole is None or not 2 <= whole <= MOST_POWER:
            return self.add("pow", met, (self.operand(base, met), self.operand(exponent, met)))
        one = self.operand(base, met)
        if whole == 0:
            return self.add("eq", met, (one, one))  # 1 for every whole number
        found = one
        for bit in bin(whole)[3:]:  # of the exponent, the highest left out
            found = self.add("mul", met, (found, found))
            if bit == "1":
                found = self.add("mul", met, (found, one))
        return found


def _is_power_of_two(value: float) -> bool:
    """One so small that its inverse is a normal number in f32."""
    return 1e-30 < abs(value) < 1e30 and abs(math.frexp(value)[0]) == 0.5
