"""Task graphs on real devices: random ones against numpy, on one and on two, and their plans.

When this fails, a task graph gives other results than numpy.
"""

import threading

import graphkit
import numpy as np
import pytest
from graphkit import F32, check, grown, matrices
from graphkit import recorder as graph

from sparkle_drv.ops import constant, ref
from sparkle_drv.sched.graph import run as run_graph
from sparkle_drv.sched.journal import journal
from sparkle_drv.sched.model.costs import Reliability
from sparkle_drv.sched.model.work import HOST
from sparkle_drv.sched.run import arrays, trace_files
from sparkle_drv.sched.run.constants import ContextConstant
from sparkle_drv.sched.run.inspector import Inspector
from sparkle_drv.telemetry import chrome

CPU, BOTH = ("cpu",), ("cpu", "egl:0")


@pytest.fixture
def made(opened, monkeypatch):
    """(URIs, seed) -> an executor whose costs are drawn."""
    return lambda uris=BOTH, seed=0: graphkit.executor([opened(u) for u in uris], monkeypatch, seed)


@pytest.mark.unmeasured
@pytest.mark.parametrize("uris", [CPU, ("egl:0",), BOTH], ids="+".join)
@pytest.mark.parametrize("seed", range(4))
def test_random_graphs_are_what_numpy_says(made, uris, seed):
    executor = made(uris, seed)
    both = set()
    for fuse in (True, False):
        with graph(executor, fuse) as g:
            pairs = grown(g, seed, 12)
            if seed % 2:  # all of them are kept: nothing is fused away
                g.output(*(pair.node for pair in pairs))
        made_of_all = g.run()
        kept = [p for p in pairs if p.node._value.number in g._run.results]
        assert len(kept) == (len(made_of_all) if isinstance(made_of_all, tuple) else 1)
        check(kept)
        for _ in range(2):  # measured runs, one task after another
            g.run()
        check(kept)
        both.update(executor.last.plan.devices)
        for memory in executor.last.plan.memory.values():
            assert memory.peak_nbytes <= memory.naive_nbytes
        g.close()
    assert both <= set(uris)


@pytest.mark.parametrize("other", ["emu:gfx1100", "cuda:0"])
def test_a_graph_on_the_cpu_and_an_emulated_card(made, other):
    executor = made(("cpu", other), seed=2)
    with graph(executor) as g:
        pairs = grown(g, 4, 10)
    for _ in range(2):
        g.run()
    assert set(executor.last.plan.devices) == {"cpu", other}
    assert executor.last.plan.moves
    check([p for p in pairs if p.node._value.number in g._run.results])
    g.close()


def test_devices_take_turns_and_results_are_brought(made):
    """Products on one device, maps on the other: each result changes its device."""
    executor = made()
    for to in ((HOST, "egl:0"), ("egl:0", HOST)):
        executor.costs.linked(*to, [(n, 1e-6 + n * 1e-11) for n in (1e3, 1e6)])
    a, b, _ = matrices()
    for name, fast in (("gemm_f32", "cpu"), ("map_f32:relu(x0)", "egl:0")):
        for uri in BOTH:
            each = 1e-9 if uri == fast else 1e-2
            executor.costs.probed(name, uri, [(n, 1e-5 + n * each) for n in (1e2, 1e4, 1e6)])
    with graph(executor, fuse=False) as g:
        x, want = g.gemm(a, b), a.astype(np.float64) @ b
        for _ in range(3):
            x, want = g.map("relu(x)", x=x), np.maximum(want, 0)
            x, want = g.gemm(x, b), want @ b
    for _ in range(3):
        got = g.run()
    plan = executor.last.plan
    assert [task.device for task in plan.tasks] == ["cpu", *["egl:0", "cpu"] * 3]
    assert [(m.source, m.to) for m in plan.moves] == [("cpu", "egl:0"), ("egl:0", "cpu")] * 3
    assert plan.traffic_nbytes == 7 * 2 * a.nbytes + 4 * a.nbytes + 6 * 2 * a.nbytes
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert plan.memory["cpu"].peak_nbytes < plan.memory["cpu"].naive_nbytes


@pytest.mark.parametrize("uris", [CPU, BOTH], ids="+".join)
def test_a_run_reads_what_arrays_hold_then(made, uris):
    executor = made(uris)
    a, b, c = matrices(96)
    with graph(executor) as g:
        y = g.map("x*x + 1", x=g.gemm(a, b, bias=c[0]))
    first = g.run()
    kept = np.array(first)
    for _ in range(3):
        a *= 0.5
        b += 0.25  # weights
        c[0] = 0
        second = g.run()
        np.testing.assert_allclose(second, (a @ b) ** 2 + 1, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(first, kept)  # results are not written over by the next run
    assert y.array is second
    assert (y.shape, y.dtype, y.ndim, y.size, y.nbytes) == ((96, 96), F32, 2, 96**2, a.nbytes)
    np.testing.assert_array_equal(y.numpy(), np.asarray(second))


@pytest.mark.parametrize("fuse", [False, True])
def test_an_operand_lasts_until_a_map_that_would_not_bring_it_has_read_it(made, fuse):
    x, w, v = matrices(4)
    b = np.arange(1, 5, dtype=F32)
    with graph(made(CPU), fuse) as g:
        product = g.gemm(x, w, bias=b)  # brings b, the map only broadcasts it
        for _ in range(3):
            product = g.gemm(product, v)
        y = g.map("tanh(p)*b", p=product, b=b)
    for _ in range(2):
        g.run()
        np.testing.assert_allclose(y.numpy(), np.tanh((x @ w + b) @ v @ v @ v) * b, 1e-4)


@pytest.mark.parametrize("uris", [CPU, ("egl:0",), BOTH], ids="+".join)
def test_runs_may_follow_one_another_before_their_results_are_read(made, uris):
    """Operands change as soon as run returns, and memory is used again by the next run."""
    executor = made(uris, 3)
    a, b, c = matrices(160)
    with graph(executor, fuse=False) as g:
        x = g.gemm(a, b)
        for _ in range(4):
            x = g.map("tanh(x*s) + c", x=g.gemm(x, b), s=0.02, c=c)
    found, wanted = [], []
    for i in range(6):
        a[:] = i - 2.0
        c[0] = i
        found.append(g.run())
        want = a.astype(np.float64) @ b
        for _ in range(4):
            want = np.tanh(want @ b * 0.02) + c
        wanted.append(want)
    a[:] = c[:] = np.nan
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("uri", BOTH)
@pytest.mark.parametrize("constant", [True, False])
def test_a_fused_convolution_moves_less_and_gives_the_same_numbers(made, uri, constant):
    executor = made((uri,))
    chance = np.random.default_rng(7)
    x, w = graphkit.values(chance, 2, 16, 24, 24), graphkit.values(chance, 16, 16, 3, 3)
    b, s = graphkit.values(chance, 16, 1, 1), np.abs(graphkit.values(chance, 16, 1, 1)) + F32(0.1)
    if constant:
        w, b, s = (ContextConstant(executor, x) for x in (w, b, s))
    moved, results = [], []
    for fuse in (False, True):
        with graph(executor, fuse) as g:
            y = g.conv2d(x, w, padding=1)
            z = g.map("y + b", y=y, b=b)
            r = g.map("relu(z)", z=z)
            g.map("r * s", r=r, s=s)
        for _ in range(3):
            results.append(np.array(g.run()))
        moved.append(executor.last.plan.traffic_nbytes)
        assert len(executor.last.plan.tasks) == (1 if fuse else 4)
    assert moved[0] >= 2.5 * moved[1]
    allowed = ref.tolerance("winograd6", F32, 16 * 9)  # a cpu may take it for this shape
    for got in results[1:]:
        found = ref.mismatch(got, results[0], allowed)
        assert found.index is None, found


def test_weights_that_no_longer_take_their_scale_are_fused_anew(made):
    executor = made(CPU)
    b = matrices()[1]
    a = graphkit.values(np.random.default_rng(2), 24, 8)
    scale = np.ones(8, F32)
    with graph(executor) as g:
        g.map("relu(y)*s", y=g.gemm(a, b), s=scale)
    for value, tasks in ((0.5, 1), (2.0, 1), (-2.0, 2), (-1.0, 2), (0.25, 1)):
        scale[:] = value
        got = g.run()
        np.testing.assert_allclose(got, np.maximum(a @ b, 0) * value, rtol=1e-4, atol=1e-5)
        assert len(executor.last.plan.tasks) == tasks


def test_threads_take_turns_at_one_graph(made):
    executor = made(CPU)
    executor.inspector = Inspector(1.0)
    with graph(executor) as g:
        x = g.input((16, 16), F32)
        g.map("x * 2", x=g.gemm(x, np.eye(16, dtype=F32)))
    wrong = []

    def work(start):
        for k in range(start, start + 12):
            got = g.run({x: np.full((16, 16), k, F32)}).numpy()
            if not np.array_equal(got, np.full((16, 16), 2 * k, F32)):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(100 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert executor.costs.nodes["cpu"].reliability == Reliability()


def test_a_number_that_an_expression_cannot_take_is_told_when_it_is_written_down(made):
    with graph(made(CPU)) as g:
        with pytest.raises(ValueError, match="1099511627776"):
            g.map("x + a", x=np.arange(4, dtype=np.int32), a=1 << 40)
        g.map("x + a", x=np.arange(4, dtype=F32), a=1 << 70)


def test_what_is_filled_is_no_output_unless_it_is_named(made):
    executor = made(CPU)
    a, b, _ = matrices()
    out = np.zeros((len(a), b.shape[1]), F32)
    with graph(executor) as g:
        y = g.gemm(a, b, out=out)
        z = g.map("2 * y", y=y)
        g.map("y - 1", y=y)
        g.output(z)
    np.testing.assert_allclose(g.run(), 2 * (a @ b), rtol=1e-5)
    np.testing.assert_allclose(out, a @ b, rtol=1e-5)
    np.testing.assert_allclose(y.numpy(), a @ b, rtol=1e-5)


@pytest.mark.parametrize("weights", ["node", "context", "array", "numpy", "constant", "of device"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("text", ["y + 1", "y * 2", "v - y", "relu(y) * 2", "relu(y * v + 2)"])
def test_what_a_product_takes_of_a_map_with_weights_of_every_kind(made, weights, bias, text):
    """And every result is looked at: what is right is not refused."""
    executor = made(CPU)
    executor.inspector = Inspector(1.0)
    chance = np.random.default_rng(3)
    a, w = graphkit.values(chance, 5, 6), graphkit.values(chance, 6, 6)
    v, b = np.abs(graphkit.values(chance, 6)) + F32(0.1), graphkit.values(chance, 6)
    device = executor.devices["cpu"]
    given = w
    if weights == "context":
        given = arrays.empty(executor, device, w.shape, F32, None).fill(w)
    elif weights == "array":
        given = device.array(w)
    elif weights == "of device":
        given = constant(device, w)
    elif weights == "constant":
        given = ContextConstant(executor, w)
    held = ContextConstant(executor, v) if weights == "constant" else v
    with graph(executor) as g:
        if weights == "node":
            given = g.gemm(w, np.eye(6, dtype=F32))
        y = g.gemm(a, given, bias=b if bias else None)
        g.map(text, y=y, **({"v": held} if "v" in text else {}))
    product = a.astype(np.float64) @ w + (b if bias else 0)
    names = {"relu": lambda z: np.maximum(z, 0), "y": product, "v": v}
    for _ in range(3):
        np.testing.assert_allclose(g.run(), eval(text, names), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("uris", [("egl:0",), BOTH], ids="+".join)
def test_operands_of_every_kind(made, uris):
    executor = made(uris)
    last = executor.devices[uris[-1]]
    a, b, c = matrices()
    x = arrays.empty(executor, last, a.shape, F32, None).fill(a)
    y = executor.devices[uris[0]].array(b)
    fixed = ContextConstant(executor, c)
    with graph(executor) as g:
        z = g.gemm(g.gemm(x, y), fixed)
        g.map("z + t*r", z=z, t=c.T, r=c[0])
    for factor in (1, 3):
        x.fill(a * factor)
        got = g.run()
        np.testing.assert_allclose(got, a * factor @ b @ c + c.T * c[0], rtol=1e-4, atol=1e-4)
    assert not isinstance(got, tuple)


def test_results_of_numpy_arrays_are_wanted_on_the_host(made):
    executor = made(("egl:0",))
    a, b, _ = matrices()
    bound = executor.devices["egl:0"].empty(a.shape, F32)
    kept = arrays.empty(executor, executor.devices["egl:0"], a.shape, F32, None)

    def predicted(a, b, out=None):
        with graph(executor, uris=("egl:0",)) as g:
            g.gemm(a, b, out=out)
        g.run()
        return executor.last.plan.predicted_s

    anywhere = predicted(a, b, kept)
    assert predicted(a, b, bound) == anywhere
    for out in (None, np.empty_like(a)):
        assert predicted(a, b, out) > anywhere
    there = [arrays.ContextArray(executor, "egl:0", bound.device.array(x)) for x in (a, b)]
    anywhere = predicted(*there)
    assert predicted(*there, np.empty_like(a)) > anywhere


def test_outs_of_every_kind(made):
    executor = made()
    a, b, c = matrices()
    cpu = executor.devices["cpu"]
    host, bound = np.empty_like(a), executor.devices["egl:0"].empty(a.shape, F32)
    x = arrays.empty(executor, cpu, a.shape, F32, None)
    with graph(executor, uris=CPU) as g:
        y = g.gemm(a, b, out=host)
        z = g.map("y + c", y=y, c=c, out=x)
        g.map("z * 2", z=z, out=bound)
    for _ in range(2):
        made_of_all = g.run()
        want = a @ b
        np.testing.assert_allclose(host, want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(x, want + c, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(bound, 2 * (want + c), rtol=1e-4, atol=1e-5)
        a += 1
    assert len(made_of_all) == 3
    assert made_of_all[1] is not y
    assert any(x is y for y in made_of_all)


@pytest.mark.parametrize("uris", [CPU, BOTH], ids="+".join)
def test_other_types_and_shapes(made, uris):
    executor = made(uris)
    i = np.arange(-6, 6, dtype=np.int32).reshape(3, 4)
    d = np.linspace(0, 1, 12).reshape(3, 4)
    with graph(executor, uris=CPU) as g:
        total = g.reduce(g.map("abs(i)*2", i=i), "sum")
        wide = g.map("relu(i)*d", i=i, d=d)
        mean = g.reduce(wide, "mean", 1)
        point = g.map("d - m", d=d, m=g.reduce(d, "max"))
        empty = g.map("x + 1", x=np.empty((0, 3), F32))
        sums = g.reduce("x*y", x=d, y=d[0], axis=0, keepdims=True)
    assert (total.dtype, mean.dtype, empty.shape) == (np.int64, np.float64, (0, 3))
    g.run()
    assert total.numpy()[()] == np.abs(i).sum() * 2
    np.testing.assert_allclose(mean, (np.maximum(i, 0) * d).mean(1))
    np.testing.assert_allclose(point, d - 1)
    np.testing.assert_allclose(sums, (d * d[0]).sum(0, keepdims=True))
    assert empty.numpy().shape == (0, 3)


@pytest.mark.parametrize("uris", [CPU, ("egl:0",)], ids="+".join)
def test_odd_sizes_and_operands(made, uris):
    executor = made(uris)
    chance = np.random.default_rng(2)
    x, w = graphkit.values(chance, 0, 3, 8, 8), graphkit.values(chance, 4, 3, 3, 3)
    a, b = graphkit.values(chance, 5, 0), graphkit.values(chance, 0, 4)
    one = graphkit.values(chance, 1, 1)
    zero_d, weights = np.array(2.0, F32), executor.devices[uris[0]].array(one)
    with graph(executor) as g:
        none = g.map("relu(y) + 1", y=g.conv2d(x, w))
        sums = g.map("relu(y + 1)", y=g.gemm(a, b))
        point = g.map("y*2 + z", y=g.gemm(one, weights), z=zero_d)
        total = g.reduce("y*z", y=g.map("v - 1", v=one), z=g.reduce(one, "sum"))
    g.run()
    assert none.numpy().shape == (0, 4, 6, 6)
    np.testing.assert_array_equal(sums, np.ones((5, 4), F32))
    np.testing.assert_allclose(point, one * one * 2 + 2, rtol=1e-5)
    np.testing.assert_allclose(total, (one - 1)[0, 0] * one[0, 0], rtol=1e-5)


def test_the_explanation_names_tasks_times_bytes_and_memory(made):
    executor = made()
    a, b, _ = matrices()
    with graph(executor) as g:
        x = g.map("relu(x)", x=g.gemm(a, b))
        g.reduce(g.gemm(x, b), "sum", 0)
    for _ in range(2):
        g.run()
    told = executor.last.so_far.explain().splitlines()
    assert told[0].startswith("graph: 3 tasks on ")
    assert told[1].startswith("gemm + relu(x) on ")
    assert "reads 512 bytes, writes 256" in told[1]
    assert told[2].startswith("    -> ")
    assert told[3].startswith("       ")
    assert told[4].startswith("    measured ")
    assert any(line.startswith("cpu alone: ") for line in told)
    assert "768 bytes" not in told[1]
    assert any("bytes read and written" in line for line in told)
    assert any("bytes for what is between tasks" in line for line in told)


def test_a_trace_has_every_task_and_the_journal_replays(made):
    executor = made(seed=1)
    with graph(executor) as g:
        pairs = grown(g, 1, 12)
    g.run()  # decided before: the journal has it nevertheless
    with trace_files.recorded(executor, "t") as trace:
        for _ in range(3):
            g.run()
    check([p for p in pairs if p.node._value.number in g._run.results])
    assert chrome.problems(chrome.document([trace])) == []
    plan = executor.last.plan
    names = [span.name for span in trace.spans]
    for task in plan.tasks:
        assert names.count(" + ".join(task.made_of)) >= 3
    assert {span.track[0] for span in trace.spans} == {"host", *BOTH}
    assert names.count("run") == 3  # each whole, too
    again = list(journal.replay(trace.journal))
    assert len(again) == 1
    assert all(stands == now for stands, now in again)

    def slower(costs):
        costs.nodes["cpu"].lost = "what if"

    assert all(stands != now for stands, now in journal.replay(trace.journal, slower))


def test_a_graph_is_closed_behind_the_run_of_another_thread(made, monkeypatch):
    a, b, _ = matrices()
    with graph(made(CPU)) as g:
        g.gemm(a, b)
    begun, go, found = threading.Event(), threading.Event(), []
    real = run_graph.GraphRun.run

    def slow(self):
        begun.set()
        assert go.wait(20)
        return real(self)

    monkeypatch.setattr(run_graph.GraphRun, "run", slow)
    running = threading.Thread(target=lambda: found.append(g.run().numpy()))
    closing = threading.Thread(target=g.close)
    running.start()
    assert begun.wait(20)
    closing.start()
    closing.join(0.2)  # it waits
    go.set()
    running.join(20)
    closing.join(20)
    np.testing.assert_allclose(found[0], a @ b, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="run: expected an open graph, got a closed one"):
        g.run()


def test_the_copy_of_an_array_is_the_array(made):
    executor = made(CPU)
    x = arrays.empty(executor, executor.devices["cpu"], (8, 8), F32, None)
    for given, out in ((x, x.on("cpu")), (x.on("cpu"), x)):
        with pytest.raises(ValueError, match="a cycle"):
            graph(executor).map("v + 1", v=given, out=out)
