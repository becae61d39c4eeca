"""The class of work of an expression. The time of the class on a device is predicted from its
operations, and corrected by its calls: no expression is measured before its first call.

A device is measured once for float32, float64 and int32 each; other types take these rates. The sum
of two arrays gives the time of a launch and of a byte. A long chain of each group of operations
gives the time of one operation.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from sparkle_drv import ops
from sparkle_drv.core.device import Device
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.expression.grammar import outline, parse
from sparkle_drv.ops.expression.graph import Graph
from sparkle_drv.ops.expression.lower import Lowered
from sparkle_drv.ops.expression.promote import REAL, dtype_of, is_whole
from sparkle_drv.ops.map import fused
from sparkle_drv.ops.map.operation import check_on, common_shape

from .operations import Class, Predicted, Runs, filled, reduce_class

COLUMNS = 64
"""Elements of a row in the measured arrays."""
CHAIN_ROWS = 256, 2048
"""Rows of the arrays that the chains are measured with. With so many rows a device compiles a
chain, and the chain's operations take most of the time."""
CHAINS = {
    "arithmetic": ("({} + x) * y - x", 8),
    "functions": ("sin(exp(-({})))", 4),
    "powers": ("({}) ** y", 2),
}
"""For each group of operations: one link of its chain as text, and the number of links. Values stay
finite."""
_GROUP_OF = {**dict.fromkeys(REAL - {"sqrt"}, "functions"), "pow": "powers"}
_MEASURED = frozenset(check.DTYPES.values())


def map_class(
    expression: str, graph: Graph, code: Lowered, numbers: dict[int, Any], arrays: dict[str, Any]
) -> tuple[Class, float]:
    """Returns the class of an expression over arrays, and its size: the bytes read and written.

    Each expression is a class, whatever the values of its numbers. Other types, or broadcasting,
    make another class. `code` is the program of `graph`, and `numbers` maps nodes of the graph to
    the values of numbers.
    """
    count = math.prod(common_shape(arrays))
    touched = [*(x.nbytes for x in arrays.values()), count * dtype_of(code.result).itemsize]
    size = float(sum(touched))
    broadcast = len({tuple(x.shape) for x in arrays.values()}) > 1
    base = _sum(_measured_as(code.result), broadcast)
    how = _predicted(graph, code, numbers, base, size / count)
    return Class(_name("map", code, outline(expression), broadcast), predicted=how), size


def task_class(
    op: str, graph: Graph, values: Mapping[str, Any], numbers: Mapping[str, Any], nbytes: float
) -> Class:
    """Returns the class of a map, or of a reduction of an expression, that reads and writes
    `nbytes` bytes for each element.

    Expressions with equally many operations of each group (arithmetic, functions, powers) are one
    class. `op` is "map" or "reduce".
    """
    kinds = {name: check.tag_of(value.dtype) for name, value in values.items()}
    code, found = fused.program(graph, kinds, dict(numbers))
    broadcast = len({value.shape for value in values.values()}) > 1
    tag = _measured_as(code.result)
    base = _sum(tag, broadcast) if op == "map" else reduce_class("sum", dtype_of(tag))
    counts: Counter[str] = Counter()
    for (group, _), times in _groups(code).items():
        counts[group] += times
    text = ", ".join(f"{counts[group]} {group}" for group in CHAINS if counts[group])
    how = _predicted(graph, code, found, base, nbytes)
    return Class(_name(op, code, f"{text}, {nbytes:.3g} bytes", broadcast), predicted=how)


def _name(op: str, code: Lowered, text: str, broadcast: bool) -> str:
    # The name of the class lists element types that no probe measures, because the host may have to
    # convert such elements.
    stored = {code.result, *code.input_types} - _MEASURED
    return f"{op}_{'_'.join(sorted(code.types | stored))}:{text}" + ", broadcast" * broadcast


def _predicted(
    graph: Graph, code: Lowered, numbers: dict[int, Any], base: Class, nbytes: float
) -> Predicted:
    """Returns the classes from whose times the time of an expression is predicted, with their
    factors. The expression moves `nbytes` bytes for each element.
    """
    times = _groups(code)
    terms = []
    for tag in sorted({tag for _, tag in times}):
        for group in CHAINS if tag != "i32" else ("arithmetic",):
            # The time of a probe is known per byte that the probe reads or writes. For each result,
            # a probe reads two elements and writes one. The predicted expression moves `nbytes`
            # bytes.
            scale = 3 * dtype_of(tag).itemsize / (_length(group, tag) * nbytes)
            terms.append((_chain(group, tag), scale * times[group, tag]))
    able = partial(check_on, graph=graph, code=code, found=numbers)
    return Predicted(base, tuple(terms), able)


def _groups(code: Lowered) -> Counter[tuple[str, str]]:
    """Returns the number of operations for each element. The keys are (group of operations that
    are measured together, type whose measured rates are used).
    """
    times: Counter[tuple[str, str]] = Counter()
    for (op, tag), count in code.operations:
        measured = _measured_as(tag)
        group = "arithmetic" if measured == "i32" else _GROUP_OF.get(op, "arithmetic")
        times[group, measured] += count
    return times


def _measured_as(tag: str) -> str:
    """Returns the element type whose measured rates are used for `tag`. Not every type has rates of
    its own.
    """
    return tag if tag in _MEASURED else "i32" if is_whole(tag) else "f32"


@cache
def _text(group: str) -> str:
    link, links = CHAINS[group]
    made = "x * y"
    for _ in range(links):
        made = link.format(made)
    return made


@cache
def _length(group: str, tag: str) -> int:
    """Returns how many operations of this group the measured chain of the group contains."""
    code, _ = fused.program(parse(_text(group)), {"x": tag, "y": tag}, {})
    return _groups(code)[group, tag]


@cache
def _sum(tag: str, broadcast: bool) -> Class:
    def probe(dev: Device, i: int) -> Runs:
        rows = 16 * 4**i
        return _run(dev, "x + y", tag, (rows, COLUMNS), (COLUMNS,) if broadcast else None)

    return Class(f"map_{tag}:x+y" + ", broadcast" * broadcast, probe)


@cache
def _chain(group: str, tag: str) -> Class:
    def probe(dev: Device, i: int) -> Runs:
        # An index beyond CHAIN_ROWS raises IndexError, which ends the probes.
        return _run(dev, _text(group), tag, (CHAIN_ROWS[i], COLUMNS))

    return Class(f"map_{tag}:{group}", probe)


def _run(
    dev: Device, text: str, tag: str, shape: tuple[int, ...], other: tuple[int, ...] | None = None
) -> Runs:
    x, y = (filled(dev, of, dtype_of(tag)) for of in (shape, other or shape))
    size = float(2 * x.nbytes + y.nbytes)
    return lambda: ops.map(dev, text, x, y), size
