"""Lowers typed values to the instructions that the cpu's fused_map runs (native/include/sp_map.h).

`lower` pairs products with sums, orders the instructions so that few registers are live, and
allocates registers. It uses no device and no arrays. `fused.py` calls `typed.py`, then this file.

Pairs: a product that only one sum uses becomes a fused multiply-add, whose product is not rounded
(the variant `ref` rounds it). The result differs by at most half an ulp of the product from the
result of two operations. The fused result is never farther from the exact value.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkle_drv._native import lib

from . import promote
from .graph import Graph
from .typed import TYPES, TypedValue


@dataclass(frozen=True, eq=False)
class Lowered:
    """A program for fused_map: `words` (u32, read-only).

    Input slot i is the array named `inputs[i]`, of type `input_types[i]`. `cells` are 64-bit words
    for the constants and scalars; those of constants are filled in. `filled` lists the cells that
    each call fills with a scalar: (cell, node, type). `cell_types` are the types of all cells.
    `result` is the type of the result. `types` are the types in which the operations compute; a
    last conversion to `result` does not count. `operations` has ((operation, type), how often it
    occurs).
    """

    words: npt.NDArray[np.uint32]
    inputs: tuple[str, ...]
    input_types: tuple[str, ...]
    cells: npt.NDArray[np.uint64]
    filled: tuple[tuple[int, int, str], ...]
    cell_types: tuple[str, ...]
    result: str
    types: frozenset[str]
    operations: tuple[tuple[tuple[str, str], int], ...]

    def constants(self, graph: Graph, values: dict[int, Any]) -> npt.NDArray[np.uint64]:
        """Returns the program's 64-bit words of constants and scalars.

        They are `self.cells`, in which the words of scalars are replaced by those of `values`, a
        dict: node -> value.
        """
        cells: npt.NDArray[np.uint64] = self.cells.copy() if self.filled else self.cells
        for cell, node, kind in self.filled:
            cells[cell] = _cell(promote.fitted(graph, node, values[node], kind), kind)
        return cells


def _cell(value: int | float, kind: str) -> Any:
    cell = np.zeros(8, promote.dtype_name(promote.COMPUTED_IN.get(kind, kind)))
    with np.errstate(all="ignore"):
        cell[0] = value
    return cell.view(np.uint64)[0]


def lower(graph: Graph, values: list[TypedValue]) -> Lowered:
    """Returns the instructions that compute `values`, the last of which is the result.

    Raises ValueError if more registers are live at once than fused_map has.
    """
    result = values[-1].type
    values = _paired(values)
    order = _ordered(values)
    steps = [i for i in order if values[i].op not in _LEAVES]
    inputs = [i for i in order if values[i].op == "input"]
    consts = [i for i in order if values[i].op in ("const", "scalar")]
    registers, taken = _registers(values, steps)
    if taken > lib.SP_MAP_REGISTERS:
        what = f"expected at most {lib.SP_MAP_REGISTERS} live registers, got {taken}"
        graph.fail(graph.nodes[-1], what)
    place = {i: lib.SP_MAP_KIND_REGISTER << 28 | register for i, register in registers.items()}
    place |= {i: lib.SP_MAP_KIND_INPUT << 28 | slot for slot, i in enumerate(inputs)}
    place |= {i: lib.SP_MAP_KIND_CONST << 28 | slot for slot, i in enumerate(consts)}
    words: list[int] = []
    for i in steps:
        v = values[i]
        read = [place[a] for a in v.args]
        if v.op == "convert":
            read += [0, TYPES[values[v.args[0]].type]]
        op = getattr(lib, f"SP_MAP_{v.op.upper()}")
        words += [op | TYPES[v.type] << 8 | registers[i] << 16, *[*read, 0, 0][:3]]
    if not steps:  # the expression is only an input: the program copies it
        words = [lib.SP_MAP_CONVERT | TYPES[result] << 8, place[order[0]], 0, TYPES[result]]
    cells = np.zeros(len(consts), np.uint64)
    filled: list[tuple[int, int, str]] = []
    for cell, v in enumerate(values[i] for i in consts):
        if v.op == "const":
            cells[cell] = _cell(v.source, v.type)
        else:
            filled.append((cell, v.source, v.type))
    stores = len(steps) > 1 and values[steps[-1]].op == "convert"
    computed = steps[:-1] if stores else steps
    packed = np.array(words, np.uint32)
    packed.flags.writeable = cells.flags.writeable = False
    return Lowered(
        packed,
        tuple(values[i].source for i in inputs),
        tuple(values[i].type for i in inputs),
        cells,
        tuple(filled),
        tuple(values[i].type for i in consts),
        result,
        frozenset(values[i].type for i in computed) or frozenset((result,)),
        tuple(Counter((values[i].op, values[i].type) for i in steps).items()),
    )


_LEAVES = frozenset({"input", "const", "scalar"})


def _paired(values: list[TypedValue]) -> list[TypedValue]:
    """Returns `values`, in which a sum or difference and its product become one step.

    The product must have no other use.
    """
    uses = Counter(a for v in values for a in v.args)
    paired = list(values)
    for i, v in enumerate(values):
        if v.op not in ("add", "sub") or v.type not in ("f32", "f64"):
            continue
        first, second = ("fma", "fma") if v.op == "add" else ("fms", "fnma")
        left, right = v.args
        for product, other, op in ((left, right, first), (right, left, second)):
            if values[product].op == "mul" and uses[product] == 1:
                paired[i] = TypedValue(op, v.type, (*values[product].args, other))
                break
    return paired


def _ordered(values: list[TypedValue]) -> list[int]:
    """Returns the values that the last value depends on, in an order with operands first.

    Of the operands of an operation, the one that needs more registers comes first (Sethi and
    Ullman), so that a deep expression needs few registers.
    """
    need: list[int] = []
    for v in values:
        waiting = sorted((need[a] for a in set(v.args) if need[a]), reverse=True)
        most = max((n + k for k, n in enumerate(waiting)), default=1)
        need.append(0 if v.op in _LEAVES else most)
    order: dict[int, None] = {}
    stack = [(len(values) - 1, False)]
    while stack:
        i, ready = stack.pop()
        if ready:
            order[i] = None
        elif i not in order:
            stack.append((i, True))
            stack.extend((a, False) for a in sorted(values[i].args, key=lambda a: need[a]))
    return list(order)


def _registers(values: list[TypedValue], steps: list[int]) -> tuple[dict[int, int], int]:
    """Returns a register for each step, and the number of registers in use.

    The register of an operand is free after its last use.
    """
    last = {a: i for i in steps for a in values[i].args}
    registers: dict[int, int] = {}
    free: list[int] = []
    taken = 0
    for i in steps:
        ended = [registers[a] for a in set(values[i].args) if last[a] == i and a in registers]
        # A step may write its result to the register of an operand. A conversion must not, because
        # operand and result have elements of different sizes.
        if values[i].op != "convert":
            free += ended
            ended = []
        if not free:
            free.append(taken)
            taken += 1
        registers[i] = min(free)
        free.remove(registers[i])
        free += ended
    return registers, taken
