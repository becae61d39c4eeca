"""Task graphs for tests: an executor whose costs are made up, and random graphs with their values
in float64 numpy.
"""

from __future__ import annotations

import random

import numpy as np

from sparkle_drv.mesh import survey
from sparkle_drv.mesh.links import probe as link_probe
from sparkle_drv.ops import ref
from sparkle_drv.ops.expression.elementwise import ELEMENTWISE
from sparkle_drv.sched.graph.fuse.fold import folded
from sparkle_drv.sched.graph.record import TaskGraph
from sparkle_drv.sched.run import probe
from sparkle_drv.sched.run.constants import ContextConstant
from sparkle_drv.sched.run.local import LocalExecutor, default_clock

F32 = np.float32
SIDE, BATCH, CHANNELS = 12, 2, 4
MAPS = {
    "tanh(x + y)": lambda x, y, c, s: np.tanh(x + y),
    "relu(x) * 0.5 - y*y": lambda x, y, c, s: np.maximum(x, 0) * 0.5 - y * y,
    "x*s": lambda x, y, c, s: x * s,
    "x + c": lambda x, y, c, s: x + c,
    "relu(x - c)": lambda x, y, c, s: np.maximum(x - c, 0),
    "s * relu(c + x)": lambda x, y, c, s: s * np.maximum(c + x, 0),
    "x*abs(c)": lambda x, y, c, s: x * np.abs(c),
    "where(x > y, x, c)": lambda x, y, c, s: np.where(x > y, x, c),
    "sigmoid(x)": lambda x, y, c, s: 1 / (1 + np.exp(-x)),
    "max(0, x/s) + x": lambda x, y, c, s: np.maximum(0, x / s) + x,
    "c - x": lambda x, y, c, s: c - x,
}


def executor(devices, monkeypatch, seed=0):
    """One whose probes are not made but drawn: each class of work has its own fastest device."""
    made = LocalExecutor(devices, default_clock())
    chance = random.Random(seed)

    def speeds(dev, kind, clock):
        each = 10.0 ** chance.uniform(-10, -9)
        return [(n, 1e-5 + n * each) for n in (1e3, 1e6, 1e9)]

    monkeypatch.setattr(probe, "speeds", speeds)
    monkeypatch.setattr(
        link_probe, "links", lambda dev, clock: ([(n, 1e-6 + n * 1e-11) for n in (1e3, 1e6)],) * 2
    )
    monkeypatch.setattr(survey, "way", lambda *_, **__: [(n, 1e-6 + n * 1e-11) for n in (1e3, 1e6)])
    for node in made.costs.nodes.values():
        node.shares = ()  # so that both are worth having
    return made


def recorder(executor, fuse=True, uris=None):
    """An empty graph on all devices, or some."""
    return TaskGraph(executor, uris or tuple(executor.devices), fuse)


def matrices(n=8, count=3, seed=3):
    """Square ones."""
    return values(np.random.default_rng(seed), count, n, n)


def values(chance, *shape):
    return chance.uniform(-1, 1, shape).astype(F32)


class Pair:
    """A node or operand, and its value in float64."""

    def __init__(self, node, want):
        self.node, self.want = node, want


def grown(graph: TaskGraph, seed: int, count: int, given=lambda host: host) -> list[Pair]:
    """`count` operations of random kinds; `given` makes operands of host arrays. All the nodes."""
    draw, chance = random.Random(seed), np.random.default_rng(seed)

    def operand(*shape, constant=False):
        host = values(chance, *shape)
        held = ContextConstant(graph._executor, host) if constant else given(host)
        return Pair(held, host.astype(np.float64))

    pools = {
        "matrix": [operand(SIDE, SIDE) for _ in range(3)],
        "image": [operand(BATCH, CHANNELS, 6, 6) for _ in range(2)],
    }
    nodes = []
    for _ in range(count):
        pool = pools[draw.choice(["matrix", "matrix", "image"])]
        x, y = draw.choice(pool[-4:]), draw.choice(pool[-4:])
        image = x.want.ndim == 4
        kind = draw.choice(["map", "map", "map", "product", "reduce"])
        if kind == "map":
            text, function = draw.choice(list(MAPS.items()))
            c = operand(CHANNELS, 1, 1) if image else operand(SIDE)
            s = draw.choice([0.25, 0.7, -0.6])
            names = {
                n: v for n, v in {"x": x, "y": y, "c": c}.items() if n in text.replace("max", "")
            }
            more = {"s": s} if "s" in text.replace("abs", "").replace("sigmoid", "") else {}
            made = graph.map(text, **{n: p.node for n, p in names.items()}, **more)
            pair = Pair(made, function(x.want, y.want, c.want, s))
        elif kind == "product" and image:
            w, bias = (
                operand(CHANNELS, CHANNELS, 3, 3, constant=draw.random() < 0.5),
                operand(CHANNELS),
            )
            node = graph.conv2d(x.node, w.node, bias.node, padding=1)
            want = ref.conv2d(x.want, w.want, bias.want, padding=((1, 1), (1, 1)))
            pair = Pair(graph.map("v * 0.1", v=node), want * 0.1)
            nodes.append(Pair(node, want))
        elif kind == "product":
            act = draw.choice([None, "relu", "tanh"])
            weights = operand(SIDE, SIDE) if draw.random() < 0.7 else y
            node = graph.gemm(x.node, weights.node, activation=act)
            want = ref.gemm(x.want, weights.want, None, act)
            pair = Pair(graph.map("v * 0.2", v=node), want * 0.2)
            nodes.append(Pair(node, want))
        else:
            op, axis = draw.choice([("max", -1), ("mean", 1), ("sum", (0, -1)), ("min", None)])
            small = graph.reduce(x.node, op, axis, keepdims=True)
            want = getattr(np, op)(x.want, axis=axis, keepdims=True)
            nodes.append(Pair(small, want))
            pair = Pair(graph.map("tanh(x + m)", x=x.node, m=small), np.tanh(x.want + want))
        nodes.append(pair)
        pool.append(pair)
    return nodes


def computed(tasks, given):
    """The values of all tasks by number, in float64."""
    found = {number: np.asarray(x, np.float64) for number, x in given.items()}
    for task in tasks:
        reads = {name: found[value.number] for name, value in task.reads.items()}
        if task.fold is not None:
            reads.update(folded(task, given))
        if task.expression is not None:
            a = expression(task.expression, {**reads, **task.numbers})
        if task.op == "gemm":
            made = ref.gemm(reads["a"], reads["b"], reads.get("bias"), task.options["activation"])
        elif task.op == "conv2d":
            pad, bias = task.options["padding"], reads.get("bias")
            made = ref.conv2d(
                reads["x"], reads["w"], None if bias is None else bias.reshape(-1),
                padding=((pad, pad), (pad, pad)), activation=task.options["activation"],
                layout=task.options["layout"],
            )  # fmt: skip
        elif task.op == "map":
            made = np.broadcast_to(a, task.out.shape)
        elif task.op == "layout":
            made = ref.layout(reads["a"], **task.options)
        else:
            a = reads["a"] if task.expression is None else a
            how = task.options
            made = getattr(np, how["op"])(a, axis=how["axis"], keepdims=how["keepdims"])
        assert made.shape == task.out.shape
        found[task.out.number] = made
    return found


def expression(graph, values):
    found = []
    for node in graph.nodes:
        if node.op == "name":
            found.append(np.asarray(values[node.value], np.float64))
        elif node.op == "number":
            found.append(np.float64(node.value))
        else:
            found.append(
                np.asarray(ELEMENTWISE[node.op](*(np.asarray(found[a]) for a in node.args)))
            )
    return found[-1]


def check(pairs, tolerance=2e-4):
    """The values of nodes, against float64: rounding grows from task to task."""
    for pair in pairs:
        got, scale = np.asarray(pair.node), max(1.0, float(np.abs(pair.want).max()))
        assert got.dtype == F32
        assert got.shape == pair.want.shape
        assert float(np.abs(got - pair.want).max()) <= tolerance * scale
