"""`validate=` on devices that corrupt what they compute: what is wrong is noticed, done elsewhere,
and told.

When this fails, a device that computes wrongly is believed.
"""

import json

import numpy as np
import placing
import pytest
from placing import placed

import sparkle_drv as sp
from sparkle_drv import ops
from sparkle_drv.errors import KernelFault
from sparkle_drv.sched.journal import journal
from sparkle_drv.sched.model.work import HOST
from sparkle_drv.sched.operations.table import GEMM, MAP
from sparkle_drv.sched.run import arrays, trace_files
from sparkle_drv.sched.run.failures import WrongResult
from sparkle_drv.sched.run.inspector import Inspector
from sparkle_drv.sched.run.local import LocalExecutor, default_clock
from sparkle_drv.telemetry import chrome
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulated_faults import apply, happened
from sparkle_drv.testing.emulator import Machine
from sparkle_drv.testing.faults import Fault, Schedule

pytestmark = pytest.mark.usefixtures("short_probes")

F32 = np.float32
CLASSES = ("gemm_f32", "conv2d_f32:3x3", "map_f32:x*y", "reduce_sum_f32", "reduce_mean_f32",
           "layout_f32:NCHW:NHWC")  # fmt: skip


def made(devices, share=1.0):
    """An executor that prefers the last device and looks at `share` of the results."""
    executor = LocalExecutor(devices, default_clock())
    for i, device in enumerate(devices):
        for name in CLASSES:
            executor.costs.probed(name, device.uri, [(n, 10.0**-i) for n in (1e3, 1e6)])
        if not device.info.unified:
            executor.costs.linked(HOST, device.uri, [(1e3, 1e-6)])
            executor.costs.linked(device.uri, HOST, [(1e3, 1e-6)])
    executor.inspector = Inspector(share)
    return executor


@pytest.fixture
def wrong_cpu(opened, monkeypatch):
    """Two devices: "egl:0", which is right, and "cpu", preferred, whose results are all wrong."""
    executor = made([opened("egl:0"), opened("cpu")])

    def corrupting(name, real):
        def op(dev, *args, **options):
            result = real(dev, *args, **options)
            if dev.uri == "cpu":
                host = result if isinstance(result, np.ndarray) else result.numpy()
                where = (
                    slice(5, 6) if name == "gemm" else slice(None)
                )  # Freivalds finds a single one
                host.reshape(-1)[where] += 1e3
            return result

        return op

    for name in ("gemm", "conv2d", "map", "reduce", "layout"):
        placing.patch(monkeypatch, name, corrupting(name, getattr(ops, name)))
    return executor


def every(executor, uris):
    """(got, want) of each operation."""
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 6, 6)).astype(F32)
    x = rng.standard_normal((1, 4, 5, 5)).astype(F32)
    w = rng.standard_normal((3, 4, 3, 3)).astype(F32)
    yield placed(executor, uris, "gemm", a, b, bias=b[0]), a @ b + b[0]
    conv = placed(executor, uris, "conv2d", x, w, padding=1)
    yield conv, ops.ref.conv2d(x, w, padding=((1, 1), (1, 1)))
    yield placed(executor, uris, "map", "x*y", a, b), a * b
    yield placed(executor, uris, "reduce", a, "sum", None), a.sum()
    yield placed(executor, uris, "reduce", a, "mean", 0), a.mean(0)
    yield placed(executor, uris, "layout", x, "NHWC", source="NCHW"), x.transpose(0, 2, 3, 1)


def test_what_a_device_gets_wrong_is_done_on_another(wrong_cpu, caplog):
    both = ("egl:0", "cpu")
    for number, (got, want) in enumerate(every(wrong_cpu, both), 1):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        assert wrong_cpu.last.plan.device == "egl:0"
        lost = wrong_cpu.last.plan.candidates[1]
        assert (lost.device, lost.cost) == ("cpu", None)
        assert "gave a wrong result: " in lost.why
        assert "cpu: cannot: it failed in this call: cpu: " in wrong_cpu.last.so_far.explain()
        assert len(caplog.records) == number
        assert "runs on another device" in caplog.text
    assert wrong_cpu.costs.nodes["cpu"].reliability.failures > 0.2
    assert wrong_cpu.costs.nodes["cpu"].lost == ""


def test_without_another_device_it_is_an_error(wrong_cpu):
    for run in range(2):
        with pytest.raises(
            WrongResult, match=f"cpu: {CLASSES[0]} gave a wrong result: row"
        ) as told:
            placed(wrong_cpu, ("cpu",), "gemm", *np.ones((2, 4 + run, 4 + run), F32))
        assert isinstance(told.value, KernelFault)


def test_a_share_of_the_results_is_looked_at(opened, monkeypatch):
    executor = made([opened("cpu")], 0.25)
    looks = []
    monkeypatch.setattr(type(GEMM), "wrong", lambda *_: looks.append(1) or "")
    a = np.ones((4, 4), F32)
    for _ in range(200):
        placed(executor, ("cpu",), "gemm", a, a)
    assert 30 < len(looks) < 70
    assert [Inspector(0.0).due(), Inspector(1.0).due()] == [False, True]


def test_operands_are_kept_when_the_result_goes_over_them(wrong_cpu):
    a, b = np.random.default_rng(3).standard_normal((2, 8, 8)).astype(F32)
    both, want = ("egl:0", "cpu"), a @ b
    there = a.copy()
    assert placed(wrong_cpu, both, "gemm", there, b, out=there) is there
    np.testing.assert_allclose(there, want, rtol=1e-4, atol=1e-5)
    x = arrays.empty(wrong_cpu, wrong_cpu.devices["cpu"], a.shape, F32, None).fill(a)
    assert placed(wrong_cpu, both, "gemm", x, b, out=x) is x
    np.testing.assert_allclose(x, want, rtol=1e-4, atol=1e-5)
    y = placed(wrong_cpu, both, "gemm", x, b)
    np.testing.assert_allclose(y, want @ b, rtol=1e-3, atol=1e-4)
    assert y.places == ("egl:0",)


def test_looks_and_what_they_led_to_are_in_trace_and_journal(wrong_cpu):
    a, b = np.random.default_rng(3).standard_normal((2, 8, 8)).astype(F32)
    with trace_files.recorded(wrong_cpu, "t") as trace:
        got = placed(wrong_cpu, ("egl:0", "cpu"), "gemm", a, b)
    np.testing.assert_allclose(got, a @ b, rtol=1e-4, atol=1e-5)
    looks = [span for span in trace.spans if span.track == ("host", "validate")]
    assert [bool(span.args["wrong"]) for span in looks] == [True, False]
    assert chrome.problems(chrome.document([trace])) == []
    again = list(journal.replay(trace.journal))
    assert len(again) == 2
    assert all(stands == now for stands, now in again)
    assert json.loads(again[1][0])["candidates"][1]["cost"] is None


def test_an_emulated_card_that_corrupts_memory(opened, caplog):
    a, b = np.random.default_rng(3).standard_normal((2, 12, 12)).astype(F32)
    with Machine(["gfx1036"]) as machine, emu.on(machine), sp.open("emu:gfx1036") as card:
        both = ("cpu", card.uri)
        executor = made([opened("cpu"), card])
        np.testing.assert_allclose(placed(executor, both, "gemm", a, b), a @ b, rtol=1e-4)
        assert executor.last.plan.device == card.uri
        apply(Schedule(0, [Fault("job", n, "corrupt", seed=n) for n in (1, 2, 3)]), machine)
        np.testing.assert_allclose(placed(executor, both, "gemm", a, b), a @ b, rtol=1e-4)
        assert happened(machine)["corrupt"] >= 1
        assert executor.last.plan.device == "cpu"
        assert "gave a wrong result: " in caplog.text


@pytest.mark.parametrize(
    ("share", "error"), [(True, TypeError), ("all", TypeError), (-0.1, ValueError),
                         (1.5, ValueError), (float("nan"), ValueError)],
)  # fmt: skip
def test_shares_that_are_none(share, error):
    with pytest.raises(error, match="validate: expected a share from 0 to 1"):
        sp.init(["cpu"], validate=share)


def test_a_context_validates_and_is_deterministic(monkeypatch):
    a, b = np.random.default_rng(3).standard_normal((2, 65, 65)).astype(F32)
    with sp.init(["cpu"], profile=False, validate=1, deterministic=True) as ctx:
        assert ctx.device.deterministic
        looks = []
        look = type(GEMM).wrong
        looked = lambda *given: looks.append(look(*given)) or looks[-1]  # noqa: E731
        monkeypatch.setattr(type(GEMM), "wrong", looked)
        for _ in range(9):
            ctx.gemm(a, b)
        assert looks == [""] * 9
        with sp.open("cpu", threads=2, deterministic=True) as two:
            np.testing.assert_array_equal(ctx.gemm(a, b), ops.gemm(two, a, b))
    with sp.init(["cpu"], profile=False) as ctx:
        assert not ctx.device.deterministic
        assert ctx._executor.inspector is None


@pytest.fixture(scope="module")
def checking():
    with sp.init(["cpu"], profile=False, validate=1.0) as context:
        yield context


F16, F64, FIVE = np.float16, np.float64, np.arange(5)


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("3*x + y", {"x": np.uint8(200), "y": FIVE.astype(F32)}),
        ("3*x + y", {"x": np.uint8(200), "y": FIVE.astype(np.int32)}),
        ("3*x + y", {"x": np.array(200, np.uint8), "y": FIVE.astype(F32)}),
        ("x + x + y", {"x": np.True_, "y": FIVE.astype(F32)}),
        ("y * tanh(x)", {"x": np.uint8(1), "y": np.ones(5, F32)}),
        ("y * (1/x)", {"x": F16(3), "y": np.ones(5, F32)}),
        ("y * (x*x)", {"x": np.int32(2**20), "y": np.ones(5, F64)}),
        ("(y > 1)*x*x + y", {"x": np.uint8(200), "y": FIVE.astype(F32)}),
        ("(y > 1)*x*x + y", {"x": np.int32(2**20), "y": FIVE.astype(F64)}),
        ("(y > 1)*x/3*y", {"x": F16(1), "y": FIVE.astype(F64)}),
        ("sin(x*x)", {"x": np.full(5, 300, F16)}),
        ("cos(x*x)", {"x": np.full(5, 1e20, F32)}),
        ("tanh(x*x - x*x)", {"x": np.full(5, 300, F16)}),
        ("1/relu(x)", {"x": np.full(5, -0.0, F32)}),
        ("1/relu(x)", {"x": np.full(5, -0.0, F64)}),
        ("1/max(x, y)", {"x": np.full(5, -0.0, F32), "y": np.zeros(5, F32)}),
        ("1/min(x, y)", {"x": np.zeros(5, F32), "y": np.full(5, -0.0, F32)}),
    ],
)
def test_a_right_result_of_any_types_is_not_refused(checking, expression, values):
    want = ops.map(checking.device, expression, **values)
    np.testing.assert_array_equal(checking.map(expression, **values), want)
    total = ops.reduce(checking.device, expression, **values)
    np.testing.assert_array_equal(checking.reduce(expression, **values), total)
    with checking.graph() as graph:
        lone = graph.map(expression, **values)
        graph.reduce(graph.map(expression, **values))
    graph.run()
    np.testing.assert_array_equal(lone.numpy(), want)


@pytest.mark.parametrize("dtype", [F16, F32, F64])
@pytest.mark.parametrize("op", ["max", "min", "sum"])
def test_reductions_of_truths_in_a_graph(checking, op, dtype):
    x = np.arange(6, dtype=dtype).reshape(2, 3)
    with checking.graph() as graph:
        made = graph.reduce(graph.map("x > 1", x=x), op, 1)
    graph.run()
    np.testing.assert_array_equal(made.numpy(), getattr(x > 1, op)(1))


@pytest.mark.parametrize("placed_by", [{}, {"shards": "each"}])
def test_it_is_an_error_if_the_other_device_cannot_do_the_work(monkeypatch, placed_by):
    x = np.arange(6, dtype=np.int64)
    with sp.init(["cpu", "egl:0"], profile=False, validate=1.0) as ctx:
        monkeypatch.setattr(type(MAP), "wrong", lambda *_: "planted")
        with pytest.raises(KernelFault, match="gave a wrong result: planted"):
            ctx.map("x*x", x=x, **placed_by)
        with ctx.graph() as graph:
            graph.map("x*x", x=x)
        with pytest.raises(KernelFault, match="gave a wrong result: planted"):
            graph.run()


@pytest.mark.parametrize("before", [1, 40])
def test_a_fault_is_told_if_the_other_device_cannot_do_the_work(monkeypatch, before):
    x = np.arange(6, dtype=np.int64)

    def faulty(real):
        def op(dev, *args, **options):
            if dev.uri == "cpu":
                raise KernelFault("planted")
            return real(dev, *args, **options)

        return op

    with sp.init(["cpu", "egl:0"], profile=False) as ctx:
        for _ in range(before):
            ctx.map("x*x", x=x)
        for name, call in (("map", lambda: ctx.map("x*x", x=x)),
                           ("reduce", lambda: ctx.reduce("x*x", x=x))):  # fmt: skip
            placing.patch(monkeypatch, name, faulty(getattr(ops, name)))
            with pytest.raises(KernelFault, match="planted"):
                call()
