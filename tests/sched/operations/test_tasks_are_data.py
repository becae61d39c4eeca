"""Tasks are data: no field holds a function, and msgpack returns what it was given.

When this fails, a Task cannot be sent to another process.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import msgpack
import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.ops.expression.graph import ExpressionNode, Graph
from sparkle_drv.sched.model.task import Fold, Task, Value
from sparkle_drv.sched.operations.table import OPERATIONS
from sparkle_drv.sched.run import calls

pytestmark = pytest.mark.usefixtures("short_probes")

F32 = np.float32
A, B, ROW = np.ones((8, 6), F32), np.ones((6, 4), F32), np.ones(4, F32)
IMAGE, FILTERS = np.ones((2, 3, 8, 8), F32), np.ones((5, 3, 3, 3), F32)
CLASSES = {cls.__name__: cls for cls in (Task, Value, Fold)}


def packed(x: Any) -> Any:
    """`x` as what msgpack takes. Fails on anything that is no data."""
    if type(x).__name__ in CLASSES:
        fields = {f.name: packed(getattr(x, f.name)) for f in dataclasses.fields(x)}
        return {"class": type(x).__name__, "fields": fields}
    if isinstance(x, Graph):
        nodes = [[n.op, list(n.args), packed(n.value), n.at, n.truth] for n in x.nodes]
        return {"graph": [nodes, list(x.names), x.text, x.called]}
    if isinstance(x, np.dtype):
        return {"dtype": x.str}
    if isinstance(x, np.generic):
        return {"number": [x.dtype.str, x.tobytes()]}
    if isinstance(x, tuple):
        return {"tuple": [packed(y) for y in x]}
    if isinstance(x, list):
        return [packed(y) for y in x]
    if isinstance(x, dict):
        return {"dict": [[packed(k), packed(v)] for k, v in x.items()]}
    assert x is None or isinstance(x, (bool, int, float, str, bytes)), f"{x!r} is no data"
    return x


def unpacked(x: Any) -> Any:
    if isinstance(x, list):
        return [unpacked(y) for y in x]
    if not isinstance(x, dict):
        return x
    ((kind, what), *more) = x.items()
    if kind == "class":
        ((_, fields),) = more
        return CLASSES[what](**{name: unpacked(value) for name, value in fields.items()})
    if kind == "graph":
        nodes, names, text, called = what
        made = (
            ExpressionNode(op, tuple(a), unpacked(v), at, truth) for op, a, v, at, truth in nodes
        )
        return Graph(tuple(made), tuple(names), text, called)
    if kind == "dtype":
        return np.dtype(what)
    if kind == "number":
        return np.frombuffer(what[1], what[0])[0]
    if kind == "tuple":
        return tuple(unpacked(y) for y in what)
    return {unpacked(k): unpacked(v) for k, v in what}


def survives(task: Task) -> None:
    assert unpacked(msgpack.unpackb(msgpack.packb(packed(task)))) == task


CALLS = {
    "gemm": ((A, B), {"bias": ROW, "activation": "relu"}),
    "conv2d": ((IMAGE, FILTERS, None), {"stride": (2, 1), "padding": 1}),
    "map": (("x*y + s", A, A, np.float32(2)), {}),
    "reduce": ((A, "sum", (0, 1)), {"keepdims": True}),
    "layout": ((IMAGE, "NHWC"), {}),
}


@pytest.fixture(scope="module")
def ctx():
    with sp.init(["cpu"], profile=False) as context:
        yield context


def test_every_operation_is_tried():
    assert CALLS.keys() == OPERATIONS.keys()


@pytest.mark.parametrize("name", CALLS)
def test_a_call(ctx, name):
    args, named = CALLS[name]
    task = calls.request_of(ctx._executor, OPERATIONS[name], args, named).task
    assert task is not None
    assert task.op == name
    survives(task)
    for cut in OPERATIONS[name].cuts(task):
        survives(OPERATIONS[name].piece(task, cut, 0, 1))


def test_tasks_of_a_fused_graph(ctx):
    w, scale = ctx.constant(FILTERS), np.full((1, 5, 1, 1), 2, F32)
    with ctx.graph() as graph:
        image = graph.layout(IMAGE, "NHWC")
        y = graph.map("relu(x * s + 1)", x=graph.conv2d(IMAGE, w), s=scale)
        graph.reduce(graph.map("sin(v)", graph.gemm(A, B)), "max", axis=1)
        graph.map(lambda v: v + np.float64(3), image)
        graph.reduce("v * v", v=y)
    graph.run()
    tasks = [task for choice in graph._run._choices for task in choice]
    assert any(task.fold for task in tasks)
    for task in (*graph._tasks, *tasks):
        survives(task)
