"""From typed values to the instructions that the cpu's fused_map runs (native/include/sp_map.h).

`lower` pairs products with sums, orders the instructions so that few values wait, and gives them
registers. Pure: no device, no arrays. `typed.py` comes before it, `fused.py` calls both.

Pairs: a product that only one sum needs becomes a fused multiply-add, whose product is not rounded
(on `ref` it is). That is within half an ulp of the product of what two operations give, and never
farther from the exact value by more than they are.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from . import promote
from .graph import Graph
from .typed import TYPES, Value


@lru_cache(maxsize=1)
def _numbers() -> tuple[dict[str, int], dict[str, int], int]:
    from sparkle_drv._native import lib  # the enums of sp_map.h, the one place with the numbers

    names = [n for n in dir(lib) if n.startswith("SP_MAP_")]
    ops = {n.removeprefix("SP_MAP_").lower(): getattr(lib, n) for n in names}
    kinds = {k: getattr(lib, f"SP_MAP_KIND_{k.upper()}") for k in ("register", "input", "const")}
    return ops, kinds, lib.SP_MAP_REGISTERS


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
            read += [0, TYPES[values[v.args[0]].type]]
        words += [ops[v.op] | TYPES[v.type] << 8 | registers[i] << 16, *[*read, 0, 0][:3]]
    if not steps:  # an input as it is
        words = [ops["convert"] | TYPES[result] << 8, place[order[0]], 0, TYPES[result]]
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
