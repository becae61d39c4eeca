"""No room of sched but operations names an operation, and a plan changes nothing.

When this fails, a new operation means an edit of other rooms, or asking for a plan changes what the
next call does.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

import numpy as np
import pytest
from where import ROOT

import sparkle_drv as sp
from sparkle_drv.sched.operations.table import OPERATIONS, DispatchOperation

SCHED = ROOT / "sparkle_drv/sched"
# An array has a layout, too. And `map` is a function of Python.
SHARED = {"layout", "map"}
PUBLIC = {"table", "operation", "product", "compose", "recorder", "traffic", "user_kernels"}
F32 = np.float32


def words(tree: ast.AST) -> Iterator[str]:
    """The identifiers, attributes and strings of a module, docstrings left out."""
    for node in ast.walk(tree):
        for field in ("id", "attr", "name", "arg", "asname"):
            word = getattr(node, field, None)
            if isinstance(word, str):
                yield word
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def named(text: str) -> list[str]:
    """Operations that a module names: as a whole word, or as the begin of a class of work."""
    tree = ast.parse(text)
    names = (OPERATIONS.keys() | {DispatchOperation.name}) - SHARED
    hits = [word for word in words(tree) if word.partition("_")[0] in names and len(word) < 40]
    for node in ast.walk(tree):
        operands = (node.left, *node.comparators) if isinstance(node, ast.Compare) else ()
        compared = {x.value for x in operands if isinstance(x, ast.Constant)}
        if any(isinstance(x, ast.Attribute) and x.attr == "op" for x in operands):
            hits += [str(word) for word in compared & OPERATIONS.keys()]
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            room, _, module = node.module.rpartition(".")
            if room.endswith("sched.operations") and module not in PUBLIC:
                hits.append(module)
    return hits


def test_no_other_room_names_an_operation():
    files = [p for p in SCHED.rglob("*.py") if "operations" not in p.parts]
    assert len(files) > 50
    hits = {str(p.relative_to(SCHED)): named(p.read_text()) for p in files}
    assert {path: found for path, found in hits.items() if found} == {}


@pytest.mark.parametrize(
    "text",
    [
        "made = ops.gemm(a, b)", 'x = {"conv2d": 1}', 'if task.op == "map": pass',
        'speed = costs["reduce_sum_f32"]', "def gemm(): pass", 'y = "layout" == task.op',
        "from sparkle_drv.sched.operations.reduce import KINDS",
    ],
)  # fmt: skip
def test_names_are_seen(text):
    assert named(text)


def test_names_of_python_and_of_arrays_are_let_be():
    assert named("x = map(f, y.layout)") == []


def state(executor):
    """What decisions depend on, as values."""
    costs = executor.costs
    return copy.deepcopy(
        (costs, dict(executor.plans), dict(executor.shared), executor.last, executor._hung)
    )


@pytest.mark.parametrize("topology", ["single", "mesh"])
def test_a_plan_changes_nothing(topology):
    a = np.ones((64, 64), F32)
    with sp.init(["cpu:c0", "cpu:c1"], profile=False, topology=topology) as ctx:
        x = ctx.array(a.shape, F32).fill(a)
        asked = [
            ("gemm", (a, a)), ("gemm", (x, a)), ("map", ("x*2", a)), ("reduce", (a,)),
            ("conv2d", (np.ones((4, 3, 8, 8), F32), np.ones((2, 3, 3, 3), F32))),
        ]  # fmt: skip
        for op, args in asked:
            ctx.plan(op, *args)  # measures what is unknown
        before, places = repr(state(ctx._executor)), x.places
        for op, args in asked:
            assert ctx.plan(op, *args).explain()
        assert repr(state(ctx._executor)) == before
        assert x.places == places
