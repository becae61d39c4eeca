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
from .graph import Graph, Node
from .scalars import Scalars

TYPES = {"f32": 0, "f64": 1, "i32": 2}
"""What elements may be, by their numbers in sp_map.h."""
MOST_POWER = 8  # a whole exponent up to which a power of reals is products: (n - 1) / 2 ulp at most
_SWAPPED = {"gt": "lt", "ge": "le"}
_COMMUTES = frozenset({"add", "mul", "eq", "ne"})


@dataclass(slots=True)
class Value:
    """One value of the typed program: "input" (`source`: its name), "const" (`source`: a number),
    "scalar" (`source`: the number of its node), or an operation over earlier values.
    """

    op: str
    type: str
    args: tuple[int, ...] = ()
    source: Any = None


class _Typed:
    """Values by number; equal ones are one."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self._known: dict[Any, int] = {}

    def add(self, op: str, kind: str, args: tuple[int, ...] = (), source: Any = None) -> int:
        if op in _SWAPPED:
            op, args = _SWAPPED[op], args[::-1]
        if op in _COMMUTES and args[0] > args[1]:
            args = args[::-1]
        key = (op, kind, args, repr(source))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.values)
            self.values.append(Value(op, kind, args, source))
        return found

    def converted(self, value: int, kind: str) -> int:
        if self.values[value].type == kind:
            return value
        return self.add("convert", kind, (value,))


def typed(graph: Graph, split: Scalars, kinds: dict[int, str]) -> tuple[list[Value], str]:
    """The values that a graph becomes and the type of the result, which is the last value.

    `kinds` has that of each array's node and of each scalar that is needed (promote.py). TypeError:
    a type that is not f32, f64 or i32 on the way or at the end.
    """
    made = _Typed()
    number: dict[int, int] = {}  # node -> value, of those that are not scalars
    kind_at = dict(kinds)
    for i, node in enumerate(graph.nodes):
        if split.uniform[i]:
            continue
        if node.op == "name":
            number[i] = made.add("input", kind_at[i], (), node.value)
            continue
        operands = tuple(kind_at[a] for a in node.args)
        try:
            met, result = promote.rule(node.op, operands)
        except TypeError as error:
            graph.fail(node, str(error), TypeError)
        if node.op == "where" and met in promote.WEAK:  # numpy makes an array of its own of them
            met = result = {"float": "f64", "int": "int64"}[met]
        if met not in ("f32", "f64", "i32", "bool"):
            name = promote.dtype_name(met)
            graph.fail(node, f"{node.op} is {name} here, and there are f32, f64 and i32", TypeError)
        kind_at[i] = result
        number[i] = _operation(graph, node, made, number, operands, met)
    last = len(graph.nodes) - 1
    if split.uniform[last]:
        what = "the result is one number, which no array has part in"
        graph.fail(graph.nodes[last], what, TypeError)
    if kind_at[last] not in TYPES:
        graph.fail(
            graph.nodes[last],
            f"the result would be {promote.dtype_name(kind_at[last])}, and there are float32, "
            "float64 and int32: choose numbers with where(condition, a, b)",
            TypeError,
        )
    return made.values[: number[last] + 1], kind_at[last]


def _operation(
    graph: Graph, node: Node, made: _Typed, number: dict[int, int], kinds: tuple[str, ...], met: str
) -> int:
    if met == "bool":  # 0 or 1, in the type that the comparison was made in
        met = next(made.values[number[a]].type for a in node.args if a in number)
        op = {"add": "max", "mul": "min"}.get(node.op, node.op)
        if op in ("abs", "relu", "square", "floor"):
            return number[node.args[0]]
    else:
        op = node.op

    def operand(a: int) -> int:
        if a in number:
            return made.converted(number[a], met)
        return _scalar(graph, made, a, met)

    if op == "where":
        condition = node.args[0]
        if condition in number and kinds[0] != "bool":
            own = made.values[number[condition]].type
            zero = made.add("const", own, (), 0)
            chosen = made.add("ne", own, (number[condition], zero))
            chosen = made.converted(chosen, met)
        else:
            chosen = operand(condition)
        return made.add("where", met, (chosen, operand(node.args[1]), operand(node.args[2])))
    if op == "pow":
        return _power(graph, node, made, number, met, operand)
    if op == "floor" and met == "i32":
        return number[node.args[0]]
    if op == "square":
        one = operand(node.args[0])
        return made.add("mul", met, (one, one))
    if op == "div" and node.args[1] not in number:
        divisor = graph.nodes[node.args[1]]
        if divisor.op == "number" and _is_power_of_two(divisor.value):
            inverse = made.add("const", met, (), 1.0 / float(divisor.value))
            return made.add("mul", met, (operand(node.args[0]), inverse))
    return made.add(op, met, tuple(operand(a) for a in node.args))


def _scalar(graph: Graph, made: _Typed, a: int, kind: str) -> int:
    """A number that is written in the expression, or one that each call computes."""
    node = graph.nodes[a]
    if node.op != "number":
        return made.add("scalar", kind, (), a)
    try:
        return made.add("const", kind, (), promote.fitted(shown(node.value), node.value, kind))
    except ValueError:
        graph.fail(node, f"{shown(node.value)} does not fit {kind}")


def _is_power_of_two(value: Any) -> bool:
    """Small enough that its inverse is a normal number in f32."""
    try:
        fraction, exponent = math.frexp(float(value))
    except OverflowError:
        return False
    return abs(fraction) == 0.5 and -100 < exponent < 100


def _whole(value: Any) -> int | None:
    """A number that is whole as an int, whatever its type; None: it is not (as inf and NaN)."""
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value)


def _power(
    graph: Graph, node: Node, made: _Typed, number: dict[int, int], met: str, operand: Any
) -> int:
    base, exponent = node.args
    written = graph.nodes[exponent]
    whole = None
    if base in number and written.op == "number":
        whole = _whole(written.value)
    if met == "i32":
        if whole is None:
            graph.fail(
                node, "i32 has powers with an exponent that is written as a number", TypeError
            )
        if whole >= 2**31:
            graph.fail(written, f"{shown(whole)} does not fit i32")
        if whole < 0:
            graph.fail(node, "integers to negative integer powers are not allowed")
    elif whole is None or not 2 <= whole <= MOST_POWER:
        return made.add("pow", met, (operand(base), operand(exponent)))
    if whole == 0:
        one = operand(base)
        return made.add("eq", met, (one, one))  # 1 for every whole number
    square: int = operand(base)
    found: int | None = None
    while whole:
        if whole & 1:
            found = square if found is None else made.add("mul", met, (found, square))
        whole >>= 1
        if whole:
            square = made.add("mul", met, (square, square))
    assert found is not None
    return found
