"""Merges tasks of a graph before they are placed. All functions are pure.

First each map is merged into the only map that reads it, if both have the same shape. Then, if only
one map reads a product, as much of it as possible becomes the epilogue of the product
(epilogue.py). Then each map is merged into the only reduction that reads it. An output of the graph
stays an array of its own. Fewer bytes move, and results stay within the tolerances of `ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.expression import promote
from sparkle_drv.ops.expression.graph import Builder, Graph
from sparkle_drv.sched.model.task import Task, Value, needed, readers
from sparkle_drv.sched.operations.compose import CALLED, Expr, written
from sparkle_drv.sched.operations.product import Product
from sparkle_drv.sched.operations.table import operation_of

from .epilogue import Epilogue, peel

SCALING = 2
"""Cost of scaling a byte of weights on the host, relative to a byte of a result."""
Holds = Callable[[Task], bool]
"""Says whether the fold of this product can be applied to its present weights."""


def fuse(tasks: Sequence[Task], outputs: frozenset[int], holds: Holds, free: int = 0) -> list[Task]:
    """Returns `tasks` merged into fewer, in the same topological order.

    `holds(task)` says whether the fold of a product can be applied to its weights. New values get
    numbers from `free` on, above those of `tasks`.
    """
    free = max(free, unused(tasks))
    left = _expressions_into(plain(tasks, outputs), outputs, _is_elementwise)
    left = _products(left, outputs, holds, free)
    return _expressions_into(left, outputs, _reduces)


def unused(tasks: Sequence[Task]) -> int:
    """Returns the least `Value.number` above those of all arrays that these tasks read or make."""
    numbers = (value.number for task in tasks for value in (*task.arrays, task.out))
    return max(numbers, default=0) + 1


def plain(tasks: Sequence[Task], outputs: frozenset[int]) -> list[Task]:
    """Returns the unmerged tasks that `outputs` need. Rewrites their expressions so that equal ones
    compare equal, whatever names their operands had.
    """
    return needed([_plain(task) for task in tasks], outputs)


def _plain(task: Task) -> Task:
    if task.expression is None:
        return task
    made = Expr(task.expression, task.reads, task.numbers).plain()
    return replace(task, expression=made.graph, reads=made.reads, numbers=made.numbers)


def _alone(
    tasks: Sequence[Task], outputs: frozenset[int], wanted: Callable[[Task], bool]
) -> dict[int, tuple[int, int]]:
    """Finds the tasks that are `wanted`, whose result is no output and has only one reader.

    Returns a dict: number of the result -> (index of the task, index of the task that reads it).
    """
    reading = readers(tasks)
    return {
        task.out.number: (i, reading[task.out.number][0])
        for i, task in enumerate(tasks)
        if wanted(task)
        and task.out.number not in outputs
        and len(reading.get(task.out.number, ())) == 1
    }


def _expressions_into(
    tasks: list[Task], outputs: frozenset[int], wanted: Callable[[Task], bool]
) -> list[Task]:
    """Merges each expression into its only reader, if that is `wanted`."""
    tried: set[tuple[int, int]] = set()
    while True:
        merged = None
        for number, (i, reader) in _alone(tasks, outputs, _is_elementwise).items():
            pair = number, tasks[reader].out.number
            if wanted(tasks[reader]) and pair not in tried:
                merged = _joined(tasks[i], tasks[reader], number)
                tried.add(pair)
            if merged is not None:
                tasks = [*tasks[:i], *tasks[i + 1 : reader], merged, *tasks[reader + 1 :]]
                break
        if merged is None:
            return tasks


def _is_elementwise(task: Task) -> bool:
    return operation_of(task).elementwise


def _reduces(task: Task) -> bool:
    return operation_of(task).reduces


def _is_product(task: Task) -> bool:
    return isinstance(operation_of(task), Product)


def _joined(inner: Task, outer: Task, number: int) -> Task | None:
    assert inner.expression is not None
    part = Expr(inner.expression, inner.reads, inner.numbers)
    if operation_of(outer).elementwise:
        if inner.out.shape != outer.out.shape:
            return None  # merged, each broadcast copy of an element would be computed again
        assert outer.expression is not None
        name = next(n for n, value in outer.reads.items() if value.number == number)
        joined = Expr(outer.expression, outer.reads, outer.numbers).joined(name, part)
    elif outer.expression is None and check.tag_of(inner.out.dtype) not in promote.COMPUTED_IN:
        # The reduction computes the elements itself. Maps of 16-bit elements are not merged, since
        # the reduction would then read elements that were not rounded to 16 bits.
        joined = part
    else:
        return None
    if not joined.fits:
        return None
    return replace(
        outer, reads=joined.reads, expression=joined.graph, numbers=joined.numbers,
        made_of=(*inner.made_of, *outer.made_of),
    )  # fmt: skip


def _products(tasks: list[Task], outputs: frozenset[int], holds: Holds, free: int) -> list[Task]:
    """Makes as much as possible of each map the epilogue of a product, if only this map reads the
    product.
    """
    done: set[int] = set()
    while True:
        pair = next(
            (
                (i, reader)
                for number, (i, reader) in _alone(tasks, outputs, _is_product).items()
                if _is_elementwise(tasks[reader]) and number not in done
            ),
            None,
        )
        if pair is None:
            return tasks
        i, reader = pair
        done.add(tasks[i].out.number)
        fused = _taken(tasks[i], tasks[reader], holds, free)
        if fused:
            free += 1
            done.update(task.out.number for task in fused)
            tasks = [*tasks[:i], *tasks[i + 1 : reader], *fused, *tasks[reader + 1 :]]


def _taken(product: Task, reader: Task, holds: Holds, free: int) -> list[Task]:
    """Returns [the product with an epilogue taken from the map `reader`], followed by a task for
    the rest of the map if there is one. Returns [] if no part of the map can be an epilogue.
    """
    assert reader.expression is not None
    if product.out.shape != reader.out.shape or product.out.dtype != reader.out.dtype:
        return []
    expr = Expr(reader.expression, reader.reads, reader.numbers)
    for epilogue in peel(product, expr):
        out = replace(product.out, number=free)
        rest = _rest(expr, epilogue.at, out)
        task = _with(product, epilogue, reader.out if rest is None else out)
        if task.fold is None or (_pays(task, rest is None) and holds(task)):
            if rest is None:
                return [replace(task, made_of=(*product.made_of, *reader.made_of))]
            done = written(_part(expr, epilogue.at))
            left = replace(
                reader, reads=rest.reads, expression=rest.graph, numbers=rest.numbers,
            )  # fmt: skip
            return [replace(task, made_of=(*product.made_of, done)), left]
    return []


def _with(product: Task, epilogue: Epilogue, out: Value) -> Task:
    reads = dict(product.reads)
    if epilogue.bias is not None:
        reads["bias"] = epilogue.bias
    options = {**product.options, "activation": epilogue.activation}
    return replace(product, reads=reads, options=options, out=out, fold=epilogue.fold)


def _pays(task: Task, whole: bool) -> bool:
    """Returns whether it is cheaper to scale a product's weights than its result.

    `whole` says that the whole map becomes the product's epilogue. Otherwise the rest of the map
    can scale the result at no cost. Constant weights are scaled only once. Other weights are scaled
    in each run, on the host, in a few passes.
    """
    assert task.fold is not None
    weights = task.reads[task.fold.weights]
    cheap = weights.constant or SCALING * weights.nbytes <= task.out.nbytes
    return task.fold.scale is None or (whole and cheap)


def _part(expr: Expr, at: int) -> Graph:
    """Returns the part of the expression that ends with node `at`."""
    builder = Builder()
    for node in expr.graph.nodes:
        builder.add(node.op, node.args, node.value)
    return builder.graph(at, expr.graph.names, "", CALLED)


def _rest(expr: Expr, at: int, value: Value) -> Expr | None:
    """Returns the expression with `value` in place of node `at`, or None if `at` is its
    last node.
    """
    last = len(expr.graph.nodes) - 1
    if at == last:
        return None
    builder, name = Builder(), "made by the product"
    new = []
    for i, node in enumerate(expr.graph.nodes):
        if i == at:
            new.append(builder.add("name", (), name))
        else:
            args = tuple(new[a] for a in node.args)
            new.append(builder.add(node.op, args, node.value, node.at))
    graph = builder.graph(new[last], (*expr.graph.names, name), "", CALLED)
    used = {str(node.value) for node in graph.nodes if node.op == "name"}
    reads = {n: v for n, v in expr.reads.items() if n in used}
    numbers = {n: v for n, v in expr.numbers.items() if n in used}
    return Expr(graph, {**reads, name: value}, numbers).plain()
