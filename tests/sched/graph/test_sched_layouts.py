"""Changes of layout in graphs: which cancel, what is done in the other layout instead, and that all
of it means the same.

When this fails, a graph changes layouts more often than it needs, or computes something else.
"""

import random

import numpy as np
import pytest
from graphkit import computed, values

from sparkle_drv.sched.graph.fuse.fold import folded
from sparkle_drv.sched.graph.fuse.layouts import cancelled, changed_nbytes, relaid
from sparkle_drv.sched.graph.fuse.merge import fuse, plain, unused
from sparkle_drv.sched.graph.record import TaskGraph
from sparkle_drv.sched.run.local import LocalExecutor, default_clock

F32 = np.float32
CHANCE = np.random.default_rng(9)
X = values(CHANCE, 2, 6, 5, 4)  # NHWC of 4 channels as well as NCHW of 6
W4, W6 = values(CHANCE, 4, 4, 3, 3), values(CHANCE, 6, 6, 3, 3)
BIAS = values(CHANCE, 4)


@pytest.fixture
def g():
    return TaskGraph(LocalExecutor([], default_clock()), ())


def outputs(g):
    return frozenset(v.number for v in (g._outputs or g._unread()))


def ways(g):
    """(as written down but for what cancels, with fewer changes or None), as run.py makes them."""
    holds = lambda task: folded(task, g._given) is not None  # noqa: E731
    first = fuse(cancelled(plain(g._tasks, outputs(g)), outputs(g)), outputs(g), holds)
    fewer = relaid(first, outputs(g), unused(first))
    if fewer is not None:
        fewer = fuse(fewer, outputs(g), holds)
    for tasks in (first, fewer or first):
        same(g, tasks)
    return first, fewer


def same(g, tasks):
    want, got = (computed(t, g._given) for t in (plain(g._tasks, outputs(g)), tasks))
    for number in outputs(g):
        assert got[number].shape == want[number].shape
        np.testing.assert_allclose(got[number], want[number], rtol=1e-5, atol=1e-5)


def ops(tasks):
    return [task.op for task in tasks]


def test_inverse_changes_cancel(g):
    x = g.map("x*2", x=g.layout(X, "NHWC", source="NCHW"))
    back = g.layout(g.layout(x, "NCHW"), "NHWC")
    blocked = g.layout(g.layout(back, "NCHW8c"), "NHWC", channels=6)
    g.map("exp(v)", v=blocked)
    first, fewer = ways(g)
    assert ops(first) == ["layout", "map"]
    assert fewer is None


def test_an_output_is_there_whatever_cancels(g):
    there = g.layout(X, "NHWC", source="NCHW")
    back = g.layout(there, "NCHW")
    g.output(there, back)
    first, fewer = ways(g)
    assert ops(first) == ["layout", "layout"]
    assert fewer is None


def test_padding_that_is_dropped_does_not_come_back(g):
    blocked = values(CHANCE, 1, 2, 3, 3, 4)  # 8 channels with numbers in all of them
    g.layout(g.layout(blocked, "NCHW", channels=7), "NCHW4c")
    g.map("x + y", x=g.layout(g.layout(blocked, "NCHW", channels=7), "NCHW4c"), y=blocked)
    g.map("x - y", x=g.layout(g.layout(blocked, "NCHW", channels=8), "NCHW4c"), y=blocked)
    first, _ = ways(g)
    assert ops(first).count("layout") == 4  # of six


def test_a_convolution_between_changes_works_in_the_layout_outside(g):
    x = g.layout(X, "NCHW", source="NHWC")
    y = g.conv2d(x, W4, BIAS, padding=1)
    g.layout(g.map("relu(y)*0.5 - 1", y=y), "NHWC")
    first, fewer = ways(g)
    assert ops(first) == ["layout", "conv2d", "map", "layout"]
    assert ops(fewer) == ["conv2d", "map"]
    assert fewer[0].options["layout"] == "NHWC"
    assert fewer[0].made_of[:2] == ("NHWC to NCHW", "conv2d")
    assert fewer[-1].made_of[-1] == "NCHW to NHWC"


def test_maps_that_only_a_change_kept_apart_are_fused(g):
    y = g.conv2d(g.layout(X, "NCHW", source="NHWC"), W4, padding=1)
    z = g.layout(y, "NHWC")
    g.map("relu(z + b)", z=z, b=BIAS)
    _, fewer = ways(g)
    (task,) = fewer
    assert task.op == "conv2d"
    assert task.options["activation"] == "relu"
    assert "bias" in task.reads


def test_what_makes_less_than_it_reads_is_changed_behind(g):
    few = values(CHANCE, 1, 4, 3, 3)
    g.conv2d(g.layout(X, "NCHW", source="NHWC"), few)
    first, fewer = ways(g)
    assert ops(first) == ["layout", "conv2d"]
    assert ops(fewer) == ["conv2d", "layout"]
    assert fewer[1].out.number == first[1].out.number


def test_a_chain_is_moved_whole(g):
    """In parts it would keep its changes: each part alone only moves them."""
    x = g.layout(X, "NCHW", source="NHWC")
    for _ in range(3):
        x = g.conv2d(x, W4, padding=1)
    g.layout(x, "NHWC")
    _, fewer = ways(g)
    assert ops(fewer) == ["conv2d"] * 3


def test_chains_that_meet_are_moved_together(g):
    """One change behind both is less than one before each; one chain alone gains nothing."""
    ends = []
    for image in (X, X * 2):
        x = g.layout(image, "NCHW", source="NHWC")
        for _ in range(2):
            x = g.conv2d(x, W4, padding=1, activation="relu")
        ends.append(x)
    g.map("tanh(a) - tanh(b)", a=ends[0], b=ends[1])
    first, fewer = ways(g)
    assert (ops(first).count("layout"), ops(fewer).count("layout")) == (2, 1)


def test_what_makes_more_stays(g):
    g.conv2d(g.layout(X, "NCHW", source="NHWC"), values(CHANCE, 40, 4, 1, 1))
    assert ways(g)[1] is None


def test_an_image_that_others_read_too_is_changed_for_them(g):
    x = g.layout(X, "NCHW", source="NHWC")
    y = g.conv2d(x, W4, padding=1)
    g.layout(y, "NHWC")
    g.reduce(y, "sum", 1)
    _, fewer = ways(g)
    assert sorted(ops(fewer)) == ["conv2d", "layout", "reduce"]


def test_who_names_an_algorithm_or_reads_a_channel_each_keeps_the_layout(g):
    x = g.layout(X, "NCHW", source="NHWC")
    g.layout(g.conv2d(x, W4, padding=1, algo="direct"), "NHWC")
    y = g.layout(X, "NCHW", source="NHWC")
    g.layout(g.map("y + tanh(c)", y=y, c=BIAS.reshape(4, 1, 1)), "NHWC")
    assert ways(g)[1] is None


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs_mean_the_same_with_fewer_changes(g, seed):
    draw = random.Random(seed)
    kinds = [("NCHW", 6), ("NHWC", 4)]
    images = [(g.map("x*1.5", x=g.layout(X, b, source=a)), c) for (a, c), b in
              zip(kinds, ("NHWC", "NCHW"), strict=True)]  # fmt: skip
    for _ in range(10):
        x, channels = draw.choice(images[-4:])
        kind = draw.choice(["conv2d", "map", "map2", "layout", "layout", "channel"])
        if kind == "conv2d":
            weights = W4 if channels == 4 else W6
            x = g.conv2d(x, weights, padding=1, activation=draw.choice([None, "relu"]))
        elif kind == "map":
            x = g.map("tanh(v)*0.7", v=x)
        elif kind == "map2":
            like = [y for y, _ in images if y.layout == x.layout and y.shape == x.shape]
            x = g.map("v - w*0.5", v=x, w=draw.choice(like))
        elif kind == "channel":
            shape = (1, channels, 1, 1) if x.layout == "NCHW" else (channels,)
            x = g.map("v * c", v=x, c=values(CHANCE, *shape))
        else:
            x = g.layout(x, {"NCHW": "NHWC", "NHWC": "NCHW"}[x.layout])
        images.append((x, channels))
    if seed % 3:
        g.output(*(x for x, _ in draw.sample(images, 3)))
    first, fewer = ways(g)
    if fewer is not None:
        assert changed_nbytes(fewer) < changed_nbytes(first)


def test_the_random_graphs_have_all_kinds(g):
    """Not one of them unlike another: some can do with fewer, some cannot."""
    found = []
    for seed in range(0, 30, 3):
        one = TaskGraph(LocalExecutor([], default_clock()), ())
        test_random_graphs_mean_the_same_with_fewer_changes(one, seed)
        found.append(ways(one)[1] is not None)
    assert 2 <= sum(found) <= 9
