"""The typed program of a graph: each node that is not a scalar gets a type by numpy's rules.

Conversions (`promote.py`) become values of the program. x**3 becomes products, x/4 a product. Equal
values are merged. This file uses no device and no arrays. `lower.py` makes instructions of the
program.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkle_drv.ops.arguments.quoting import shown

from . import promote
from .elementwise import COMPARISONS
from .graph import OF_TRUTHS, ExpressionNode, Graph

TYPES = {"f32": 0, "f64": 1, "i32": 2, "i64": 3, "u8": 4, "bool": 5, "f16": 6, "bf16": 7}
"""The types of elements, with their numbers in sp_map.h."""
# The largest whole exponent n for which a power of real numbers becomes products. The error of
# these products is at most (n - 1) / 2 ulp.
MOST_POWER = 8
_WAY_OUT = "; convert the operands first (1*x makes int64 of a bool)"


@dataclass(slots=True)
class TypedValue:
    """One value of the typed program.

    `op` is "input" (`source`: its name), "const" (`source`: a number), "scalar" (`source`: the
    number of its node), or an operation on earlier values.
    """

    op: str
    type: str
    args: tuple[int, ...] = ()
    source: Any = None


def typed(
    graph: Graph, arrays: dict[str, str], scalars: dict[int, str], *, wide: bool = False
) -> list[TypedValue]:
    """Returns the values of a graph, the last of which is the result.

    `arrays` has the kinds (promote.py) of arrays by name, `scalars` those of scalars by node. With
    `wide` the result keeps the type that it is computed in, for a reduction of it. Raises TypeError
    if an operation or the result would have a type that is not in TYPES.
    """
    builder = ProgramTyper(graph)
    kind_at = dict(scalars)
    for i, node in enumerate(graph.nodes):
        if node.op == "name" and node.value in arrays:
            kind_at[i] = arrays[str(node.value)]
            builder.number[i] = builder.add("input", kind_at[i], (), node.value)
        elif i not in scalars:
            kinds = tuple(kind_at[a] for a in node.args)
            met, kind_at[i] = promote.rule_of(graph, node, kinds)
            if node.op == "square" and kinds == ("bool",):
                builder.number[i] = builder.number[node.args[0]]  # x * x is x for a bool x
                continue
            if node.op in COMPARISONS.values() and set(kinds) == {"bool"}:
                met = "bool"
            if (
                node.op == "ne"
                and kinds == ("bool", "int")
                and graph.nodes[node.args[1]].value == 0
            ):
                builder.number[i] = builder.number[node.args[0]]  # x != 0 is x for a bool x
                continue
            # numpy's result is an array, which has a type, so the result is not weak.
            if node.op == "where" and met in promote.WEAK:
                met = kind_at[i] = {"float": "f64", "int": "i64"}[met]
            if met not in TYPES:
                what = f"{node.op} is {promote.dtype_name(met)} here, and there are "
                graph.fail(node, what + " ".join(TYPES) + _WAY_OUT, TypeError)
            builder.number[i] = builder.operation(node, met)
    last = len(graph.nodes) - 1
    if last in scalars:
        what = "the result is one number, because no array takes part in it"
        graph.fail(graph.nodes[last], what, TypeError)
    if kind_at[last] not in TYPES:
        what = (
            f"the result would be {promote.dtype_name(kind_at[last])}, and there are "
            f"{' '.join(TYPES)}{_WAY_OUT}"
        )
        graph.fail(graph.nodes[last], what, TypeError)
    kind = kind_at[last]
    root = builder.converted(
        builder.number[last], promote.COMPUTED_IN.get(kind, kind) if wide else kind
    )
    return builder.values[: root + 1]


class ProgramTyper:
    """Builds the typed program of a graph: a list of values, in which equal values are merged.

    `number` maps a node of the graph to the index of its value.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values: list[TypedValue] = []
        self.number: dict[int, int] = {}
        self._known: dict[Any, int] = {}

    def add(self, op: str, kind: str, args: tuple[int, ...] = (), source: Any = None) -> int:
        index = self._known.setdefault((op, kind, args, repr(source)), len(self.values))
        if index == len(self.values):
            self.values.append(TypedValue(op, kind, args, source))
        return index

    def converted(self, value: int, kind: str) -> int:
        """Returns the index of `value` converted to type `kind`. Adds conversions if needed.

        A type in promote.COMPUTED_IN has a wider type in which it is computed. Conversions from and
        to it go by way of that wider type.
        """
        own = self.values[value].type
        if own == kind:
            return value
        wide = promote.COMPUTED_IN
        for step in (wide.get(own, own), wide.get(kind, kind), kind):
            if step != self.values[value].type:
                value = self.add("convert", step, (value,))
        return value

    def operand(self, i: int, kind: str) -> int:
        """Returns the index of the value of node i, as an operand of a step that computes in
        `kind`.

        Node i may be one of three things: a node with a value for each element, a number in the
        text, or a scalar that each call gives. If `kind` is in promote.COMPUTED_IN, the value has
        the wider type in which `kind` is computed.
        """
        index = self.number.get(i)
        if index is not None:
            small = self.values[index].type in ("bool", "u8") or self.graph.nodes[i].truth
            if not small:  # round a value of a wider type to `kind`
                index = self.converted(index, kind)
            return self.converted(index, promote.COMPUTED_IN.get(kind, kind))
        node = self.graph.nodes[i]
        if node.op != "number":
            return self.add("scalar", kind, (), i)
        return self.add("const", kind, (), promote.fitted(self.graph, i, node.value, kind))

    def operation(self, node: ExpressionNode, met: str) -> int:
        op = node.op
        # A bool is stored as 0 or 1, in the type in which its comparison computed.
        if met == "bool":
            elements = (self.number[a] for a in node.args if a in self.number)
            met = self.values[next(elements)].type
            met = promote.COMPUTED_IN.get(met, met)
            if op in ("abs", "relu", "floor"):
                return self.number[node.args[0]]
            op = OF_TRUTHS.get(op, op)
        if op == "pow":
            return self.rounded(self.power(node, met), op, met)
        args = [self.operand(a, met) for a in node.args]
        if op == "floor" and promote.is_whole(met):
            return args[0]
        if op == "square":
            op, args = "mul", args * 2
        if op == "div":
            divisor = self.graph.nodes[node.args[1]].value
            if not isinstance(divisor, str) and _is_power_of_two(divisor):
                op, args[1] = "mul", self.add("const", met, (), 1.0 / divisor)
        return self.rounded(self.add(op, promote.COMPUTED_IN.get(met, met), tuple(args)), op, met)

    def rounded(self, value: int, op: str, met: str) -> int:
        """Returns the index of `value`, the result of `op`, converted to `met`, the kind in which
        numpy computes `op`.

        The result of a comparison is returned unchanged.
        """
        return value if op in COMPARISONS.values() else self.converted(value, met)

    def power(self, node: ExpressionNode, met: str) -> int:
        base, exponent = node.args
        written = self.graph.nodes[exponent]
        whole = None
        if base in self.number and not isinstance(written.value, str) and written.value % 1 == 0:
            whole = int(written.value)
        wide = promote.COMPUTED_IN.get(met, met)
        if promote.is_whole(met):
            if whole is None:
                what = f"{met} has powers with an exponent that is written as a number"
                self.graph.fail(node, what, TypeError)
            if whole > np.iinfo(promote.dtype_name(met)).max:
                self.graph.fail(written, f"{shown(whole)} does not fit {met}")
            if whole < 0:
                self.graph.fail(node, "integers to negative integer powers are not allowed")
        elif written.value == 0.5:  # as numpy: the root of -inf is NaN, its power is inf
            return self.add("sqrt", wide, (self.operand(base, met),))
        elif whole is None or not 2 <= whole <= MOST_POWER:
            return self.add("pow", wide, (self.operand(base, met), self.operand(exponent, met)))
        factor = self.operand(base, met)
        if whole == 0:
            return self.add("eq", wide, (factor, factor))  # x == x is 1 for whole numbers
        product = factor
        for bit in bin(whole)[3:]:  # square and multiply; the highest bit is done
            product = self.add("mul", wide, (product, product))
            if bit == "1":
                product = self.add("mul", wide, (product, factor))
        return product


def _is_power_of_two(value: float) -> bool:
    """Returns whether `value` is a power of two whose inverse is a normal number in f32."""
    return 1e-30 < abs(value) < 1e30 and abs(math.frexp(value)[0]) == 0.5
