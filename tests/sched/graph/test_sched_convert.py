"""Convolutions of images in another layout than their own: they work in the operand's, or behind a
change of layout in the plan.

When this fails, convolutions in a graph change layouts more often than they need.
"""

import graphkit
import numpy as np
import placing
import pytest
from graphkit import recorder as graph
from placing import placed

import sparkle_drv as sp
from sparkle_drv import ops
from sparkle_drv.ops import ref
from sparkle_drv.sched.journal import journal
from sparkle_drv.sched.model.explain import seconds
from sparkle_drv.sched.run import arrays, trace_files
from sparkle_drv.sched.run.inspector import Inspector
from sparkle_drv.telemetry import chrome

F32 = np.float32
BOTH = ("cpu", "egl:0")
OTHERS = ("NHWC", "NCHW8c")


@pytest.fixture
def executor(opened, monkeypatch):
    """The cpu and software OpenGL, with costs that are drawn."""
    return graphkit.executor([opened(u) for u in BOTH], monkeypatch, 1)


CHANCE = np.random.default_rng(8)
IMAGE, WEIGHTS = (CHANCE.uniform(-1, 1, s).astype(F32) for s in ((2, 6, 7, 5), (4, 3, 3, 3)))
HOW = {"padding": 1, "groups": 2}
WANT = ref.conv2d(IMAGE, WEIGHTS, padding=((1, 1), (1, 1)), groups=2)


def image(executor, layout, uri="cpu"):
    """IMAGE as a ContextArray in this layout."""
    host = ref.layout(IMAGE, "NCHW", layout)
    return arrays.empty(executor, executor.devices[uri], host.shape, F32, layout).fill(host)


def conv2d(executor, x, uris=BOTH, **more):
    return placed(executor, uris, "conv2d", x, WEIGHTS, **{**HOW, **more})


@pytest.mark.parametrize("uri", BOTH)
def test_without_a_layout_said_it_works_in_that_of_the_image(executor, uri):
    got = conv2d(executor, image(executor, "NHWC", uri))
    assert got.layout == "NHWC"
    np.testing.assert_allclose(got, np.moveaxis(WANT, 1, 3), rtol=1e-5, atol=1e-5)
    assert executor.last.plan.work.op.endswith(":NHWC")
    assert executor.last.plan.candidates[0].cost.convert_s == 0


@pytest.mark.parametrize("uri", BOTH)
@pytest.mark.parametrize("source", OTHERS)
@pytest.mark.parametrize("target", ["NCHW", "NHWC"])
def test_an_image_in_another_layout_is_changed_first(executor, uri, source, target):
    want = ref.layout(WANT, "NCHW", target)
    x = image(executor, source, uri)
    for _ in range(3):  # the second and the third are measured
        got = conv2d(executor, x, (uri,), layout=target)
        assert got.layout == target
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    assert x.layout == source
    kept, cost = executor.last, executor.last.plan.candidates[0].cost
    took = kept.measured
    assert took.total_s == took.compute_s + took.in_s + took.out_s + took.convert_s
    assert (took.in_s > 0, took.out_s) == (uri == "egl:0", 0)  # the weights are numpy's
    operand = kept.plan.work.operands[0]
    if source == target:
        assert (operand.convert, cost.convert_s, took.convert_s) == ("", 0, 0)
        return
    assert operand.convert == f"layout_f32:{source}:{target}"
    assert cost.convert_s > 0
    assert cost.total_s >= cost.compute_s + cost.convert_s
    assert took.compute_s > 0 < took.convert_s
    assert executor.costs.runs[operand.convert] == 2
    words = kept.so_far.explain()
    assert f"{operand.nbytes} bytes go through {operand.convert}" in words
    assert f"convert {seconds(took.convert_s)} / {seconds(cost.convert_s)}" in words


def test_a_blocked_image_is_plain_to_whom_no_layout_was_said(executor):
    got = conv2d(executor, image(executor, "NCHW8c"))
    assert got.layout == "NCHW"
    np.testing.assert_allclose(got, WANT, rtol=1e-5, atol=1e-5)


def test_the_time_of_the_change_decides(executor):
    """The faster device for the work alone cannot change layouts fast."""
    x, y = image(executor, "NHWC", "egl:0"), image(executor, "NCHW", "egl:0")
    for a in (x, y):
        assert a.on("cpu") is not None  # no transfer in what is compared
    for name, far in (("conv2d_f32:grouped", 1e-6), ("layout_f32:NHWC:NCHW", 10.0)):
        for uri, each in (("cpu", 1e-3), ("egl:0", far)):
            executor.costs.probed(name, uri, [(n, each) for n in (1e3, 1e6)])
    conv2d(executor, y, layout="NCHW")
    assert executor.last.plan.device == "egl:0"
    conv2d(executor, x, layout="NCHW")
    assert executor.last.plan.device == "cpu"


def test_a_trace_shows_it_and_the_journal_replays(executor):
    x = image(executor, "NHWC")
    with trace_files.recorded(executor, "t") as trace:
        got = conv2d(executor, x, layout="NCHW")
    np.testing.assert_allclose(got, WANT, rtol=1e-5, atol=1e-5)
    assert chrome.problems(chrome.document([trace])) == []
    assert "layout_f32:NHWC:NCHW" in [span.name for span in trace.spans]
    assert all(stands == now for stands, now in journal.replay(trace.journal))


@pytest.mark.parametrize("source", OTHERS)
def test_what_is_looked_at_is_the_convolution_of_what_was_changed(executor, monkeypatch, source):
    executor.inspector = Inspector(1.0)
    x = image(executor, source)
    np.testing.assert_allclose(conv2d(executor, x, layout="NCHW"), WANT, rtol=1e-5, atol=1e-5)
    assert executor.costs.nodes[executor.last.plan.device].reliability.failures == 0
    real, first = ops.conv2d, executor.last.plan.device

    def wrong(dev, *args, **options):
        made = real(dev, *args, **options)
        if dev.uri == first:
            made.fence.wait()
            made.numpy()[...] += 1
        return made

    assert first == "cpu"  # whose memory the host can spoil
    placing.patch(monkeypatch, "conv2d", wrong)
    got = conv2d(executor, x, layout="NCHW")
    assert executor.last.plan.device != first
    np.testing.assert_allclose(got, WANT, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("source", ["NCHW", *OTHERS])
@pytest.mark.parametrize("target", ["NCHW", *OTHERS])
def test_changes_of_layout_are_calls_of_their_own(executor, source, target):
    channels = {"channels": 6} if source == "NCHW8c" else {}
    got = placed(executor, BOTH, "layout", image(executor, source), target, **channels)
    assert got.layout == target
    np.testing.assert_array_equal(got, ref.layout(IMAGE, "NCHW", target))
    host = ref.layout(IMAGE, "NCHW", source)
    out = np.zeros(ref.layout(IMAGE, "NCHW", target).shape, F32)
    options = {"source": source, "out": out, **channels}
    assert placed(executor, BOTH, "layout", host, target, **options) is out
    np.testing.assert_array_equal(out, got)


@pytest.mark.parametrize(
    ("w", "more", "what"),
    [
        ((4, 5, 3, 3), {"layout": "NCHW"}, "w: expected shape|channels: expected 1 to 8"),
        ((4, 3, 3), {"layout": "NCHW"}, "w: expected 4 dimensions"),
        ((4, 3, 3, 3), {"layout": "CHWN"}, "layout: expected 'NCHW' or 'NHWC'"),
        ((4, 3, 3, 3), {"layout": "NCHW", "groups": 0}, "groups: "),
        ((4, 3, 9, 9), {"layout": "NCHW", "padding": 0}, "no height"),
    ],
)
@pytest.mark.parametrize("source", OTHERS)
def test_what_does_not_match_is_an_error_before_anything_is_done(executor, source, w, more, what):
    x = image(executor, source)
    before = [dev.default_queue.submitted for dev in executor.devices.values()]
    with pytest.raises(ValueError, match=what):
        placed(executor, BOTH, "conv2d", x, np.zeros(w, F32), **{**HOW, **more})
    assert [dev.default_queue.submitted for dev in executor.devices.values()] == before
    assert executor.last is None


def probed(executor, **seconds):
    """Classes of work by the beginning of their names: seconds on both devices, whatever size."""
    real = executor.know

    def know(kind, uris):
        for start, each in seconds.items():
            if kind.name.startswith(start):
                for uri in BOTH:
                    if (kind.name, uri) not in executor.costs.speeds:
                        executor.costs.probed(kind.name, uri, [(n, each) for n in (1e3, 1e6)])
        real(kind, uris)

    executor.know = know


def between(executor, x, **more):
    """A graph whose convolution is between changes of layout; its result."""
    g = graph(executor, **more)
    y = g.conv2d(g.layout(x, "NCHW", source="NHWC"), WEIGHTS, **HOW)
    z = g.layout(g.map("relu(y)", y=y), "NHWC")
    for _ in range(3):
        g.run()
    np.testing.assert_allclose(z, np.moveaxis(np.maximum(WANT, 0), 1, 3), rtol=1e-5, atol=1e-5)
    g.close()
    return executor.last


def test_a_graph_takes_the_way_that_is_faster(executor):
    x = ref.layout(IMAGE, "NCHW", "NHWC")
    probed(executor, layout=1e-3, conv2d=1e-3)
    plan = between(executor, x).plan
    assert [task.work.op for task in plan.tasks] == ["conv2d_f32:grouped:NHWC"]
    assert plan.tasks[0].made_of == ("NHWC to NCHW", "conv2d", "relu(y)", "NCHW to NHWC")
    assert (plan.convert_s, plan.otherwise_s) == (0, pytest.approx(3e-3, rel=0.01))
    for uri in BOTH:
        executor.costs.probed("conv2d_f32:grouped:NHWC", uri, [(n, 5e-3) for n in (1e3, 1e6)])
    kept = between(executor, x)
    made = [task.work.op for task in kept.plan.tasks]
    assert made == ["layout_f32:NHWC:NCHW", "conv2d_f32:grouped", "layout_f32:NCHW:NHWC"]
    assert kept.plan.convert_s == pytest.approx(2e-3, rel=0.01)
    assert kept.plan.otherwise_s == pytest.approx(5e-3, rel=0.01)
    words = kept.so_far.explain()
    assert "changes of layout take 2 ms, 5 ms in all otherwise" in words
    assert "NHWC to NCHW on " in words
    plan = between(executor, x, fuse=False).plan  # as it was written down
    assert (len(plan.tasks), plan.otherwise_s) == (4, 0)


@pytest.mark.parametrize("uris", [("cpu",), ("egl:0",), BOTH], ids="+".join)
@pytest.mark.parametrize("fuse", [True, False])
def test_convolutions_in_graphs_change_what_they_are_given(executor, uris, fuse):
    g = graph(executor, fuse, uris)
    plain = g.conv2d(image(executor, "NHWC"), WEIGHTS, layout="NCHW", **HOW)
    blocked = g.layout(plain, "NCHW3c")
    last = g.conv2d(blocked, np.eye(4, dtype=F32).reshape(4, 4, 1, 1), layout="NHWC")
    same = g.conv2d(image(executor, "NHWC"), WEIGHTS, **HOW)
    back = g.layout(g.layout(g.map("x*2", x=plain), "NHWC"), "NCHW")
    out = np.zeros((2, 7, 5, 4), F32)
    g.layout(plain, "NHWC", out=out)
    g.output(plain, blocked, last, same, back)
    executor.inspector = Inspector(1.0)
    for _ in range(3):
        g.run()
    close = {"rtol": 1e-5, "atol": 1e-5}
    for node, layout, scale in ((plain, "NCHW", 1), (blocked, "NCHW3c", 1), (last, "NHWC", 1),
                                (same, "NHWC", 1), (back, "NCHW", 2)):  # fmt: skip
        assert node.array.layout == node.layout == layout
        np.testing.assert_allclose(node, ref.layout(WANT, "NCHW", layout) * scale, **close)
    np.testing.assert_allclose(out, np.moveaxis(WANT, 1, 3), **close)
    assert any(task.work.op.startswith("layout_") for task in executor.last.plan.tasks)
    assert all(node.reliability.failures == 0 for node in executor.costs.nodes.values())
    g.close()


def test_a_traced_graph_replays(executor):
    with trace_files.recorded(executor, "t") as trace:
        between(executor, ref.layout(IMAGE, "NCHW", "NHWC"))
    assert chrome.problems(chrome.document([trace])) == []
    again = list(journal.replay(trace.journal))
    assert len(again) == 1
    assert again[0][0] == again[0][1]


def test_a_constant_in_another_layout_is_changed_in_every_call():
    """The sides equal the channels: unchanged, the image would have a right shape."""
    x = np.random.default_rng(8).standard_normal((1, 9, 9, 9)).astype(np.float32)
    w = np.random.default_rng(9).standard_normal((4, 9, 3, 3)).astype(np.float32)
    with sp.init(["cpu"], profile=False) as ctx:
        there = ctx.array(x.shape, np.float32, layout="NHWC").fill(x.transpose(0, 2, 3, 1))
        image, want = ctx.constant(there.on("cpu")), ref.conv2d(x, w)
        for _ in range(40):
            got = ctx.conv2d(image, w, layout="NCHW")
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
            own = ctx.conv2d(image, w)
            np.testing.assert_allclose(own.transpose(0, 3, 1, 2), want, rtol=1e-4, atol=1e-4)
