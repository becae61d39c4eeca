"""From a graph to the instructions that the cpu's fused_map runs (native/include/sp_map.h).

`scalars` says which nodes have one value for all elements; they are computed on the host, once a
call. `typed` gives every other node a type by numpy's rules (`promote.py`) and writes the
conversions down; x**3 becomes products, x/4 a product. `lower` pairs products with sums, orders
the instructions so that few values wait, and gives them registers. Pure: no device, no arrays.

Pairs: a product that only one sum needs becomes a fused multiply-add, whose product is not rounded
(on `ref` it is). That is within half an ulp of the product of what two operations give, and never
farther from the exact value by more than they are.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from . import promote
from .graph import Graph, Node
from .words import shown

MOST_POWER = 8  # a whole exponent up to which a power of reals is products: (n - 1) / 2 ulp at most
_TYPES = {"f32": 0, "f64": 1, "i32": 2}
_SWAPPED = {"gt": "lt", "ge": "le"}
_COMMUTES = frozenset({"add", "mul", "eq", "ne"})


@lru_cache(maxsize=1)
def _numbers() -> tuple[dict[str, int], dict[str, int], int]:
    from sparkle_drv._native import lib  # the enums of sp_map.h, the one place with the numbers

    names = [n for n in dir(lib) if n.startswith("SP_MAP_")]
    ops = {n.removeprefix("SP_MAP_").lower(): getattr(lib, n) for n in names}
    kinds = {k: getattr(lib, f"SP_MAP_KIND_{k.upper()}") for k in ("register", "input", "const")}
    return ops, kinds, lib.SP_MAP_REGISTERS


@dataclass(frozen=True)
class Scalars:
    """Which nodes of a graph are scalars, by the names that are.

    `order`: the nodes to compute, in order, each a scalar that an element needs, or that such a
    scalar needs. `needed`: those whose value an instruction reads, a subset.
    """

    uniform: tuple[bool, ...]
    order: tuple[int, ...]
    needed: tuple[int, ...]

    def values(self, graph: Graph, named: dict[str, Any]) -> dict[int, Any]:
        """The value of each node in `order`."""
        found: dict[int, Any] = {}
        for i in self.order:
            node = graph.nodes[i]
            if node.op == "number":
                found[i] = node.value
            elif node.op == "name":
                found[i] = named[str(node.value)]
            else:
                found[i] = promote.of_scalars(graph, node, [found[a] for a in node.args])
        return found


@lru_cache(maxsize=512)
def scalars(graph: Graph, names: frozenset[str]) -> Scalars:
    """`names`: those of the graph's names that are scalars."""
    uniform: list[bool] = []
    needed: set[int] = set()
    for i, node in enumerate(graph.nodes):
        own = node.op == "number" or (node.op == "name" and node.value in names)
        uniform.append(own or (bool(node.args) and all(uniform[a] for a in node.args)))
        if not uniform[i]:
            needed.update(a for a in node.args if uniform[a])
    if uniform[-1]:
        needed.add(len(uniform) - 1)
    order = set(needed)
    for i in range(len(uniform) - 1, -1, -1):
        if i in order:
            order.update(graph.nodes[i].args)
    return Scalars(tuple(uniform), tuple(sorted(order)), tuple(sorted(needed)))


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
    if kind_at[last] not in _TYPES:
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


def _power(
    graph: Graph, node: Node, made: _Typed, number: dict[int, int], met: str, operand: Any
) -> int:
    base, exponent = node.args
    written = graph.nodes[exponent]
    whole = None
    if base in number and written.op == "number" and float(written.value) == int(written.value):
        whole = int(written.value)
    if met == "i32":
        if whole is None:
            graph.fail(
                node, "i32 has powers with an exponent that is written as a number", TypeError
            )
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


@dataclass(frozen=True, eq=False)
class Lowered:
    """`words` (u32, read-only) is what fused_map runs; slot i of its inputs is the array called
    `inputs[i]`, of type `input_types[i]`. `cells` are its constants where they are known; `filled`
    says which cells take a scalar: (cell, node, type). `result` is the type of the result, `types`
    all that are computed with.
    """

    words: npt.NDArray[np.uint32]
    inputs: tuple[str, ...]
    input_types: tuple[str, ...]
    cells: npt.NDArray[np.uint64]
    filled: tuple[tuple[int, int, str], ...]
    result: str
    types: frozenset[str]

    def constants(self, graph: Graph, values: dict[int, Any]) -> npt.NDArray[np.uint64]:
        """The cells with the scalars' values in them."""
        if not self.filled:
            return self.cells
        cells: npt.NDArray[np.uint64] = self.cells.copy()
        for cell, node, kind in self.filled:
            name = str(graph.nodes[node].value) or graph.nodes[node].op
            cells[cell] = _cell(promote.fitted(name, values[node], kind), kind)
        return cells


_DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32}


def _cell(value: int | float, kind: str) -> Any:
    cell = np.zeros(2, _DTYPES[kind])
    with np.errstate(all="ignore"):
        cell[0] = value
    return cell.view(np.uint64)[0]


def lower(graph: Graph, values: list[Value], result: str) -> Lowered:
    """Instructions for `values`, the last being the result.

    ValueError: more values wait at once than there are registers.
    """
    values = _paired(values)
    order = _ordered(values)
    ops, kinds, most = _numbers()
    steps = [i for i in order if values[i].op not in _LEAVES]
    slots = {name: [i for i in order if values[i].op in of] for name, of in _SLOTS.items()}
    place = {i: kinds[name] << 28 | k for name, found in slots.items() for k, i in enumerate(found)}
    registers, taken = _registers(values, steps)
    if taken > most:
        graph.fail(graph.nodes[-1], f"{taken} values wait at once, and {most} are possible")
    for i, register in registers.items():
        place[i] = kinds["register"] << 28 | register
    words: list[int] = []
    for i in steps:
        v = values[i]
        read = [place[a] for a in v.args]
        if v.op == "convert":
            read += [0, _TYPES[values[v.args[0]].type]]
        words += [ops[v.op] | _TYPES[v.type] << 8 | registers[i] << 16, *[*read, 0, 0][:3]]
    if not steps:  # an input as it is
        words = [ops["convert"] | _TYPES[result] << 8, place[order[0]], 0, _TYPES[result]]
    cells = np.zeros(len(slots["const"]), np.uint64)
    for k, i in enumerate(slots["const"]):
        if values[i].op == "const":
            cells[k] = _cell(values[i].source, values[i].type)
    filled = [
        (k, values[i].source, values[i].type)
        for k, i in enumerate(slots["const"])
        if values[i].op == "scalar"
    ]
    packed = np.array(words, np.uint32)
    packed.flags.writeable = cells.flags.writeable = False
    return Lowered(
        packed,
        tuple(values[i].source for i in slots["input"]),
        tuple(values[i].type for i in slots["input"]),
        cells,
        tuple(filled),
        result,
        frozenset(values[i].type for i in steps) or frozenset((result,)),
    )


_SLOTS = {"input": ("input",), "const": ("const", "scalar")}
_LEAVES = frozenset({"input", "const", "scalar"})


def _paired(values: list[Value]) -> list[Value]:
    """Sums and differences with a product that nobody else needs, as one step."""
    uses = [0] * len(values)
    for v in values:
        for a in v.args:
            uses[a] += 1
    made = list(values)
    for i, v in enumerate(values):
        if v.op not in ("add", "sub") or v.type == "i32":
            continue
        left, right = v.args
        for product, other, op in (
            (left, right, "fma" if v.op == "add" else "fms"),
            (right, left, "fma" if v.op == "add" else "fnma"),
        ):
            if values[product].op == "mul" and uses[product] == 1:
                made[i] = Value(op, v.type, (*values[product].args, other))
                break
    return made


def _ordered(values: list[Value]) -> list[int]:
    """What the last value needs, operands first; of an operation's operands the one first that
    needs more registers (Sethi and Ullman), so that a deep expression needs few.
    """
    need: list[int] = []
    for v in values:
        waiting = sorted((need[a] for a in set(v.args) if need[a]), reverse=True)
        most = max((n + k for k, n in enumerate(waiting)), default=1)
        need.append(0 if v.op in _LEAVES else max(most, 1))
    order: list[int] = []
    seen: set[int] = set()
    stack = [(len(values) - 1, False)]
    while stack:
        i, ready = stack.pop()
        if ready:
            order.append(i)
        elif i not in seen:
            seen.add(i)
            stack.append((i, True))
            stack.extend((a, False) for a in sorted(values[i].args, key=lambda a: need[a]))
    return order


def _registers(values: list[Value], steps: list[int]) -> tuple[dict[int, int], int]:
    """A register for each step, and how many there are; an operand's is free with its last use."""
    uses: dict[int, int] = {}
    for i in steps:
        for a in values[i].args:
            uses[a] = uses.get(a, 0) + 1
    found: dict[int, int] = {}
    free: list[int] = []
    taken = 0
    for i in steps:
        ended = []
        for a in values[i].args:
            uses[a] -= 1
            if not uses[a] and a in found:
                ended.append(found[a])
        # A step may write where it reads, but for a conversion: its elements are of two sizes.
        if values[i].op != "convert":
            free += ended
            ended = []
        if not free:
            free.append(taken)
            taken += 1
        heapq.heapify(free)
        found[i] = heapq.heappop(free)
        free += ended
    return found, taken
