"""Task graphs when something goes wrong: devices that fail, short memory, foreign arrays.

When this fails, a failed device ends a graph, or gives a wrong result.
"""

import gc

import graphkit
import numpy as np
import pytest
from graphkit import F32, check, grown, matrices
from graphkit import recorder as graph

from sparkle_drv import ops
from sparkle_drv.errors import DeviceLost, KernelFault, OutOfDeviceMemory
from sparkle_drv.sched.decide.choose import STALE, Impossible
from sparkle_drv.sched.graph import run as run_graph
from sparkle_drv.sched.graph import task as run_task
from sparkle_drv.sched.journal import journal
from sparkle_drv.sched.model.costs import Costs
from sparkle_drv.sched.model.work import HOST
from sparkle_drv.sched.run import arrays, trace_files, ways
from sparkle_drv.sched.run.failures import WrongResult
from sparkle_drv.sched.run.inspector import Inspector

CPU, BOTH = ("cpu",), ("cpu", "egl:0")


@pytest.fixture
def made(opened, monkeypatch):
    """(URIs, seed) -> an executor whose costs are drawn."""
    return lambda uris=BOTH, seed=0: graphkit.executor([opened(u) for u in uris], monkeypatch, seed)


def failing(monkeypatch, uri, error, times=1):
    """Tasks on a device fail: which ones did, in a list."""
    real, failed = run_task.run, []

    def run(device, *rest):
        if device.uri == uri and len(failed) < times:
            failed.append(uri)
            raise error
        return real(device, *rest)

    monkeypatch.setattr(run_task, "run", run)
    return failed


@pytest.mark.parametrize(
    "error", [KernelFault("hung"), OutOfDeviceMemory("full"), DeviceLost("gone")]
)
def test_what_a_device_fails_at_is_done_on_another(made, monkeypatch, error):
    executor = made(seed=1)
    with graph(executor) as g:
        pairs = grown(g, 1, 12)
    g.run()
    assert set(executor.last.plan.devices) == set(BOTH)
    failed = failing(monkeypatch, "egl:0", error)
    outputs = g.run()
    assert failed == ["egl:0"]
    assert executor.last.plan.devices == ("cpu",)
    assert executor.costs.nodes["egl:0"].lost == ("gone" if isinstance(error, DeviceLost) else "")
    check([p for p in pairs if p.node._value.number in g._run.results])
    assert outputs is not None
    g.run()
    assert (executor.last.plan.devices == ("cpu",)) == isinstance(error, DeviceLost)


def test_a_device_whose_result_cannot_be_had_is_left(made, monkeypatch):
    executor = made(seed=1)
    with graph(executor) as g:
        pairs = grown(g, 1, 14)
    g.run()
    assert any(move.source == "egl:0" for move in executor.last.plan.moves)
    real = ways.fill

    def fill(there, made, source, asks, wait):
        asks(source.device.uri)
        if source.device.uri == "egl:0":
            raise KernelFault("what came before had failed")
        return real(there, made, source, asks, wait)

    monkeypatch.setattr(ways, "fill", fill)
    g.run()
    assert executor.last.plan.devices == ("cpu",)
    assert executor.costs.nodes["egl:0"].reliability.failures > 0
    assert executor.costs.nodes["cpu"].reliability.failures == 0
    check([p for p in pairs if p.node._value.number in g._run.results])


def test_when_all_fail_the_last_error_is_told(made, monkeypatch):
    executor = made(CPU)
    a, b, _ = matrices()
    with graph(executor) as g:
        g.gemm(a, b)
    failing(monkeypatch, "cpu", OutOfDeviceMemory("cpu is full"), times=2)
    with pytest.raises(OutOfDeviceMemory, match="cpu is full"):
        g.run()
    failing(monkeypatch, "cpu", OutOfDeviceMemory("cpu is full"), times=0)
    executor.costs.nodes["cpu"].lost = "reset"
    with pytest.raises(
        Impossible, match="gemm_f32: no device can do the work: cpu: it is lost: reset"
    ):
        g.run()


def test_what_does_not_fit_says_what_is_needed_and_what_there_is(made):
    executor = made()
    a, b, _ = matrices(64)
    with graph(executor, fuse=False) as g:
        x = g.gemm(a, b)
        for _ in range(3):
            x = g.gemm(g.map("tanh(x)", x=x), b)
    g.run()
    chosen = executor.last.plan.devices
    most = max(m.peak_nbytes + m.kept_nbytes for m in executor.last.plan.memory.values())
    assert most < 8 * a.nbytes
    executor.costs.nodes[chosen[0]].memory_nbytes = 3 * a.nbytes  # enough for each task alone
    g._run.forget()
    g.run()
    assert chosen[0] not in executor.last.plan.devices
    for node in executor.costs.nodes.values():
        node.memory_nbytes = 3 * a.nbytes
    g._run.forget()
    with pytest.raises(
        Impossible,
        match=r"its arrays do not fit the devices' memory: .*"
        r"cpu: \d+ bytes are needed, it has 49152",
    ):
        g.run()
    for node in executor.costs.nodes.values():
        node.memory_nbytes = a.nbytes
    with pytest.raises(
        Impossible, match="gemm_f32: no device can do the work: cpu: 49152 bytes are needed"
    ):
        g.run()


def test_an_algorithm_of_the_cpu_is_not_asked_of_others(made):
    executor = made()
    chance = np.random.default_rng(1)
    x, w = graphkit.values(chance, 1, 3, 8, 8), graphkit.values(chance, 4, 3, 3, 3)
    with graph(executor) as g:
        g.conv2d(x, w, algo="winograd2")
    got = g.run()
    np.testing.assert_allclose(got, ops.conv2d(executor.devices["cpu"], x, w), rtol=1e-4, atol=1e-4)
    why = executor.last.plan.tasks[0].candidates[1].why
    assert why == "algo 'winograd2' is there on the cpu only"


def test_arrays_of_another_device_or_context_are_refused(made, opened):
    executor, other = made(CPU), graphkit.LocalExecutor([opened("cpu")], graphkit.default_clock())
    a, b, _ = matrices()
    with graph(executor) as g:
        with pytest.raises(ValueError, match="a: expected an array of this Context, got one of"):
            g.gemm(arrays.empty(other, opened("cpu"), (8, 8), F32, None), b)
        with pytest.raises(ValueError, match=r"b: expected an Array of this Context \(cpu\), got"):
            g.gemm(a, opened("egl:0").array(b))
        closed = opened("cpu").array(b)
        closed.close()
        with pytest.raises(ValueError, match="b: expected an open array, got a closed one"):
            g.gemm(a, closed)
        later = opened("cpu").array(b)
        g.gemm(a, later)
    g.run()
    later.close()
    with pytest.raises(ValueError, match="expected an open operand"):
        g.run()
    for out in (opened("cpu").array(b), arrays.empty(executor, opened("cpu"), b.shape, F32, None)):
        with graph(executor) as g:
            g.gemm(a, b, out=out)
        g.run()
        before = opened("cpu").default_queue.submitted
        out.close()
        with pytest.raises(ValueError, match="expected an open out"):
            g.run()
        assert opened("cpu").default_queue.submitted == before


def test_nothing_stays_when_it_is_closed(made):
    executor = made()
    for device in executor.devices.values():
        device.default_queue  # noqa: B018  # opened at first use, and then it stays

    def alive():
        gc.collect()
        for device in executor.devices.values():
            device.wait_idle()
        return [d.live_counts()["buffers"] for d in executor.devices.values()]

    with graph(executor) as g:
        grown(g, 1, 12)
    g.run()
    before = alive()
    for _ in range(3):
        g.run()
    assert alive() == before
    results = g.run()
    g.close()
    g.close()
    assert sum(alive()) < sum(before)
    np.asarray(results[0])  # results stay with who has them
    with pytest.raises(ValueError, match="expected an open graph, got a closed one"):
        g.run()


def test_a_device_that_has_become_slower_is_noticed(made):
    executor = made(seed=1)
    with graph(executor) as g:
        grown(g, 1, 12)
    g.run()
    first = executor.last
    executor.last.runs = run_graph.LOOK - 1
    g.run()
    assert executor.last is first  # nothing has changed
    executor.last.runs = run_graph.LOOK - 1
    for op, uri in executor.costs.speeds:
        if uri == "egl:0":
            executor.costs.speeds[op, uri].pace += 10.0
    g.run()
    assert executor.last.plan.devices == ("cpu",)


def test_a_device_that_is_not_used_is_tried_again(made, monkeypatch):
    """It was slow once; that it no longer is can only be seen by trying."""
    monkeypatch.setattr(run_graph, "LOOK", 4)
    monkeypatch.setattr(run_task, "SAMPLE", 1)
    executor = made(seed=1)
    a, b = matrices(32, 2)
    for uri, each in (("cpu", 1e-9), ("egl:0", 2e-9)):
        executor.costs.probed("gemm_f32", uri, [(n, n * each) for n in (1e3, 1e5, 1e7)])
    for way in ((HOST, "egl:0"), ("egl:0", HOST)):
        executor.costs.linked(*way, [(n, n * 1e-12) for n in (1e3, 1e6)])
    virtual = {"cpu": 1e-9, "egl:0": 1e-10}  # what runs take

    def ran(self, op, device, size, seconds):
        return real(self, op, device, size, size * virtual[device])

    real = Costs.ran
    monkeypatch.setattr(Costs, "ran", ran)
    with graph(executor) as g:
        g.gemm(g.gemm(a, b), b)
    used = []
    with trace_files.recorded(executor, "t") as trace:
        for _ in range(10 * STALE):
            g.run()
            used.append(executor.last.plan)
            if used[-1].devices == ("egl:0",):
                break
            executor.tell("explored", -2e-6)  # as time goes by
    assert used[0].devices == ("cpu",)
    looks = [plan for plan in used if plan.explores]
    assert looks
    assert all(set(plan.devices) == set(BOTH) for plan in looks)
    assert len(looks) <= len(used) / 4
    assert all(plan.extra_s > 0 for plan in looks)
    assert {plan.devices for plan in used if not plan.explores} == {("cpu",), ("egl:0",)}
    assert executor.costs.speeds["gemm_f32", "egl:0"].runs >= len(looks)
    words = looks[0].explain()
    assert "to learn about a device that was idle for long" in words
    assert "tried again after a long time" in words
    again = list(journal.replay(trace.journal))
    assert all(stands == now for stands, now in again)
    np.testing.assert_allclose(g.run(), a @ b @ b, rtol=1e-4, atol=1e-4)
    g.close()


def test_a_wrong_result_is_found_and_the_graph_done_elsewhere(made, monkeypatch):
    executor = made(seed=1)
    executor.inspector = Inspector(1.0)
    with graph(executor) as g:
        pairs = grown(g, 1, 14)
    g.run()  # right results are taken for right, whatever the task
    assert set(executor.last.plan.devices) == set(BOTH)
    assert all(node.reliability.failures == 0 for node in executor.costs.nodes.values())
    real, spoilt = run_task.run, []

    def spoiling(device, task, *rest):
        result = real(device, task, *rest)
        if device.uri == "egl:0" and task.op in ("gemm", "map"):
            spoilt.append(task.op)
            device.default_queue.write(result.buffer, np.full(result.shape, 1e9, F32)).wait()
        return result

    monkeypatch.setattr(run_task, "run", spoiling)
    g.run()
    assert spoilt
    assert executor.last.plan.devices == ("cpu",)
    assert executor.costs.nodes["egl:0"].reliability.failures > 0
    check([p for p in pairs if p.node._value.number in g._run.results])
    with graph(executor, uris=("egl:0",)) as h:
        h.gemm(*matrices(count=2))
    with pytest.raises(WrongResult, match="egl:0: gemm gave a wrong result: row "):
        h.run()


@pytest.mark.parametrize("kind", ["mean", "expression", "rows"])
def test_a_wrong_reduction_is_found_and_the_graph_done_elsewhere(made, monkeypatch, kind):
    executor = made(seed=1)
    executor.inspector = Inspector(1.0)
    a, b, c = matrices(40)
    with graph(executor) as g:
        x = g.gemm(a, b)
        if kind == "mean":
            y, want = g.reduce(x, "mean", 1), (a.astype(float) @ b).mean(1)
        elif kind == "rows":
            y = g.reduce("tanh(x)*c + d", "max", 0, keepdims=True, x=x, c=c, d=c[0])
            want = (np.tanh(a.astype(float) @ b) * c + c[0]).max(0, keepdims=True)
        else:
            z = g.map("x - c*s", x=x, c=c, s=0.5)
            y = g.reduce("z*z", "mean", z=z)
            want = ((a.astype(float) @ b - c * 0.5) ** 2).mean()
    g.run()
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)
    assert all(node.reliability.failures == 0 for node in executor.costs.nodes.values())
    (first,) = {task.device for task in executor.last.plan.tasks if "reduce" in task.work.op}
    real, spoilt = run_task.run, []

    def spoiling(device, task, *rest):
        result = real(device, task, *rest)
        if device.uri == first and task.op == "reduce":
            spoilt.append(task.op)
            wrong = np.asarray(result.numpy() * 1.01, F32)
            device.default_queue.write(result.buffer, wrong.reshape(-1)).wait()
        return result

    monkeypatch.setattr(run_task, "run", spoiling)
    g.run()
    assert spoilt
    assert {t.device for t in executor.last.plan.tasks if "reduce" in t.work.op} == {*BOTH} - {
        first
    }
    assert executor.costs.nodes[first].reliability.failures > 0
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)
    g.close()
