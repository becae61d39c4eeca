"""The class of work of an expression. The time of the class on a device is predicted from its
operations, and corrected by its calls: no expression is measured before its first call.

A device is measured once for float32, float64 and int32 each; other types take these rates. The sum
of two arrays gives the time of a launch and of a byte. A long chain of each group of operations
gives the time of one operation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from sparkle_drv import ops
from sparkle_drv.core.device import Device
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.expression.grammar import parse
from sparkle_drv.ops.expression.graph import Graph
from sparkle_drv.ops.expression.lower import Lowered
from sparkle_drv.ops.expression.promote import REAL, dtype_of, is_whole
from sparkle_drv.ops.map import fused
from sparkle_drv.ops.map.operation import check_on
from sparkle_drv.sched.model.task import Task
from sparkle_drv.sched.model.work_class import Class, Predicted, Runs, filled

from .compose import outline

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


def expression_class(
    op: str, task: Task, nbytes: float, base: Callable[[str, bool], Class] | None = None
) -> Class:
    """Returns the class of a task that computes an expression, and reads and writes `nbytes` bytes
    for each element.

    Each expression is a class, whatever the names of its operands and the values of its numbers.
    Other types, or broadcasting, make another class. `base(tag, broadcast)` returns the class whose
    time per byte is part of the time; by default that is a sum of two arrays.
    """
    assert task.expression is not None
    kinds = {name: check.tag_of(value.dtype) for name, value in task.reads.items()}
    code, numbers = fused.program(task.expression, kinds, dict(task.numbers))
    broadcast = len({value.shape for value in task.reads.values()}) > 1
    least = (base or _sum)(_measured_as(code.result), broadcast)
    how = _predicted(task.expression, code, numbers, least, nbytes)
    return Class(_name(op, code, outline(task.expression), broadcast), predicted=how)


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
    able = partial(check_on, graph=graph, code=code, numbers=numbers)
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
