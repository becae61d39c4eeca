"""The runner on real devices: arrays that move, plans that are kept, what was measured kept between
runs, and devices that fail.

When this fails, arrays of a Context lose data when they move or a device fails.
"""

import json
import math

import numpy as np
import placing
import pytest
from placing import placed

from sparkle_drv import ops
from sparkle_drv.core.queue import Queue
from sparkle_drv.errors import DeviceLost, KernelFault, OutOfDeviceMemory
from sparkle_drv.mesh.links.line import Line
from sparkle_drv.sched.decide import kept_plan
from sparkle_drv.sched.decide.choose import Impossible
from sparkle_drv.sched.decide.kept_plan import KeptPlan
from sparkle_drv.sched.journal import explain
from sparkle_drv.sched.model import profile
from sparkle_drv.sched.model.costs import DeviceCosts
from sparkle_drv.sched.model.explain import seconds as written
from sparkle_drv.sched.model.work import HOST, Measured
from sparkle_drv.sched.run import arrays, probe, trace_files, ways
from sparkle_drv.sched.run.local import LocalExecutor, default_clock
from sparkle_drv.telemetry import chrome

F32 = np.float32
BOTH = ("cpu", "egl:0")


@pytest.fixture
def executor(opened):
    made = LocalExecutor([opened(uri) for uri in BOTH], default_clock())
    for name, per_s in (("gemm_f32", 1e-11), ("reduce_sum_f32", 1e-10)):
        for uri, least in zip(BOTH, (1e-5, 1e-2), strict=True):
            # As if probed: the tests are not about speed.
            made.costs.probed(name, uri, [(n, least + n * per_s) for n in (1e3, 1e6, 1e9)])
    made.costs.links[HOST, "egl:0"] = made.costs.links["egl:0", HOST] = made.costs.speeds[
        "gemm_f32", "cpu"
    ].line
    return made


def prefer(executor, uri):
    """Make every other device look busy."""
    for other, node in executor.costs.nodes.items():
        node.queued_s = 0.0 if other == uri else 1e3
        node.shares = ()
    executor.forget()


def matrices(n=8, seed=3):
    return np.random.default_rng(seed).standard_normal((2, n, n)).astype(F32)


def gemm(executor, a, b, out=None, uris=BOTH, **options):
    return placed(executor, uris, "gemm", a, b, out=out, **options)


@pytest.mark.parametrize("uri", BOTH)
def test_numpy_in_numpy_out_wherever_it_runs(executor, uri):
    a, b = matrices()
    prefer(executor, uri)
    got = gemm(executor, a, b, activation="relu")
    assert executor.last.plan.device == uri
    np.testing.assert_allclose(got, np.maximum(a @ b, 0), rtol=1e-4, atol=1e-5)
    out = np.empty_like(a)
    assert gemm(executor, a, b, out) is out


def test_arrays_move_to_where_the_work_is_and_are_on_both_then(executor):
    a, b = matrices()
    x = arrays.empty(executor, executor.devices["cpu"], a.shape, F32, None).fill(a)
    y = arrays.empty(executor, executor.devices["egl:0"], b.shape, F32, None).fill(b)
    prefer(executor, "egl:0")
    z = gemm(executor, x, y)
    assert z.places == ("egl:0",)
    assert x.places == ("cpu", "egl:0")
    assert y.places == ("egl:0",)
    np.testing.assert_allclose(z, a @ b, rtol=1e-4, atol=1e-5)
    prefer(executor, "cpu")
    again = gemm(executor, z, x, z)
    assert again is z
    assert z.places == ("cpu",)  # the other copy was of what it held before
    np.testing.assert_allclose(z, a @ b @ a, rtol=1e-3, atol=1e-4)


def test_work_goes_to_its_operands_when_they_are_dear_to_move(executor):
    a, b = matrices(16)
    y = arrays.empty(executor, executor.devices["egl:0"], b.shape, F32, None).fill(b)
    z = arrays.empty(executor, executor.devices["egl:0"], b.shape, F32, None).fill(a)
    executor.costs.links["egl:0", "cpu"] = Line(1.0, 0.0)
    assert gemm(executor, z, y).places == ("egl:0",)
    assert "operands in" in executor.last.plan.candidates[1].why


def test_filling_with_a_seed_is_the_same_everywhere(executor):
    made = []
    for uri in BOTH:
        for dtype in (F32, np.float64, np.int32):
            x = arrays.empty(executor, executor.devices[uri], (3, 5), dtype, None)
            made.append((np.dtype(dtype), x.fill_random(11).numpy()))
    for i in range(3):
        np.testing.assert_array_equal(made[i][1], made[i + 3][1])
    assert len({x.tobytes() for _, x in made}) == 3
    assert 0 <= made[0][1].min() < made[0][1].max() < 1


def test_one_element_moves_alone(executor):
    values = np.arange(12, dtype=np.int32).reshape(3, 4)
    for uri, device in executor.devices.items():
        x = arrays.ContextArray(executor, uri, device.array(values))
        with trace_files.recorded(executor, "get") as trace:
            assert x.get(2, -1) == 11
        assert type(x.get(0, 1)) is np.int32
        assert x.places == (uri,)
        moved = [s.args["nbytes"] for s in trace.spans if "nbytes" in s.args]
        assert moved == ([] if device.info.unified else [4])
        with pytest.raises(IndexError, match="get: expected an index from -3 to 2, got 3"):
            x.get(3, 0)
        x.close()
        with pytest.raises(ValueError, match="expected an open ContextArray, got a closed one"):
            x.get(0, 0)


def test_an_array_says_what_it_is(executor):
    x = arrays.empty(executor, executor.devices["cpu"], (2, 3, 1, 1), F32, "NHWC")
    assert (x.shape, x.ndim, x.size, x.nbytes, len(x)) == ((2, 3, 1, 1), 4, 6, 24, 2)
    assert x.layout == "NHWC"
    assert repr(x) == "<ContextArray float32[2, 3, 1, 1] on cpu>"
    assert x.fence is None
    assert x.on("cpu").numpy().sum() == 0
    with pytest.raises(ValueError, match="device: expected one of cpu, egl:0, got 'cuda:7'"):
        x.on("cuda:7")
    with pytest.raises(ValueError, match="broadcast"):
        x.fill(np.zeros(4))
    assert np.asarray(x, np.float64).dtype == np.float64
    x.close()
    x.close()
    assert x.closed
    assert "closed" in repr(x)
    for use in (x.numpy, lambda: x.fence, lambda: x.on("cpu")):
        with pytest.raises(ValueError, match="closed"):
            use()
    with pytest.raises(TypeError, match="0-d"):
        len(arrays.empty(executor, executor.devices["cpu"], (), F32, None))


def test_plans_of_one_shape_are_kept_and_decided_anew_after_a_while(executor, monkeypatch):
    monkeypatch.setattr(kept_plan, "MOVED", math.inf)
    a, b = matrices()
    gemm(executor, a, b)
    first = executor.last
    for _ in range(kept_plan.EARLY - 1):
        assert executor.last is first
        gemm(executor, a, b)
    gemm(executor, a, b)  # what the probes said is looked at again soon
    second = executor.last
    assert second is not first
    speed = executor.costs.speeds["gemm_f32", "cpu"]
    measured = []
    for i in range(10**6):
        before = speed.runs
        gemm(executor, a, b)
        if executor.last is not second:
            break
        measured += [i] if speed.runs > before else []
    assert executor.last is not second
    assert measured[: kept_plan.FIRST] == [0, 1, 2]
    gaps = np.diff(measured[kept_plan.FIRST - 1 :])
    assert len(gaps) == kept_plan.SETTLED - 1 - kept_plan.FIRST
    assert (gaps[1:] >= kept_plan.SAMPLE).all()  # it is short work
    gemm(executor, a[:4], b)
    assert executor.last.plan.work.size == 2 * 4 * 8 * 8


def test_long_work_is_measured_more_often_than_short():
    made = KeptPlan(None, None, 1e-3)
    for seconds, spare in ((1.0, 15), (1e-4, 19), (1e-5, 199)):
        made.runs, made.spare, made.measured = kept_plan.FIRST + 1, 0, Measured.of(seconds)
        made.ran(1e-3)
        assert made.spare == spare
        assert not made.due
    made.sync = True  # waited for anyway
    for seconds, spare in ((1.0, 0), (1e-2, 9), (1e-3, 15), (1e-4, 19)):
        made.measured = Measured.of(seconds)
        made.ran(1e-3)
        assert made.spare == spare
    made.runs, made.spare = kept_plan.FIRST, 0  # the first few are measured one by one
    made.ran(1e-3)
    assert made.spare == 0
    made.runs = kept_plan.SETTLED  # and then it is decided anew
    made.ran(1e-3)
    assert made.spare == 0
    assert made.due


def test_a_plan_is_decided_anew_when_it_no_longer_says_what_is_predicted():
    made = KeptPlan(None, None, 1e-3, runs=kept_plan.FIRST + 1, measured=Measured.of(1e-4))
    made.ran(1.05e-3)
    assert not made.due
    assert made.spare == 19
    made.spare = 0
    made.ran(1.2e-3)
    assert made.due
    assert made.spare == 0
    following = KeptPlan(None, None, 1.2e-3)
    following.follows(made)  # no more is measured for that
    assert (following.runs, following.spare, following.due) == (kept_plan.FIRST + 1, 19, False)
    made.runs = made.until
    following = KeptPlan(None, None, 1.2e-3)
    following.follows(made)  # nor for one that was settled
    assert (following.runs, following.spare, following.due) == (kept_plan.FIRST + 1, 19, False)
    made.until, made.moved = kept_plan.EARLY, False
    following = KeptPlan(None, None, 1.2e-3)
    following.follows(made)  # a shape's second plan, which is new
    assert (following.runs, following.spare, following.due) == (0, 0, False)


def rested(executor, name, *given, **named):
    """The plan of such a call, which has calls to spare."""
    made = placed(executor, BOTH, name, *given, **named)
    while not executor.last.spare:
        np.testing.assert_array_equal(placed(executor, BOTH, name, *given, **named), made)
    return executor.last


def short(executor, name, *given, **named):
    """What the call gives if it goes the short way, else None."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor, "run", lambda *_, **__: None)
        return placed(executor, BOTH, name, *given, **named)


def test_the_short_way_gives_the_same_and_is_left_when_something_is_due(executor):
    a, b = matrices()
    kept = rested(executor, "gemm", a, b)
    executor.last = None
    out = np.empty_like(a)
    assert short(executor, "gemm", a, b, out=out) is out
    assert executor.last is kept
    np.testing.assert_array_equal(out, ops.gemm(executor.devices["cpu"], a, b))
    np.testing.assert_array_equal(short(executor, "gemm", a, b), out)
    x = arrays.empty(executor, executor.devices["cpu"], a.shape, F32, None)
    for other in ((x, b, None), (a, x, None), (a, b, x), (a[:4], b, None)):
        assert short(executor, "gemm", *other[:2], out=other[2]) is None
    with pytest.raises(TypeError, match="b: "):
        gemm(executor, a, b.astype(np.float64))
    kept.spare, kept.moved, runs = 0, False, executor.costs.runs["gemm_f32"]
    kept.runs = kept.until - 1
    assert short(executor, "gemm", a, b, out=out) is out  # that one is measured
    assert executor.costs.runs["gemm_f32"] > runs
    assert kept.due
    assert short(executor, "gemm", a, b, out=out) is None
    plans, kept.spare = dict(executor.plans), 9
    assert short(executor, "gemm", a, b, out=out) is out
    with trace_files.recorded(executor, "t"):
        executor.plans.update(plans)
        assert short(executor, "gemm", a, b, out=out) is None


IMAGE, FILTERS = np.ones((1, 4, 5, 5), F32), np.ones((3, 4, 3, 3), F32)


@pytest.mark.parametrize(
    ("name", "given", "named", "others"),
    [
        ("gemm", matrices(), {"bias": matrices()[0][0]}, [{"activation": "relu"}]),
        ("conv2d", (IMAGE, FILTERS), {"padding": 1}, [{"padding": 2}, {"padding": (1, 0)}]),
        ("conv2d", (IMAGE, FILTERS), {"padding": [1, 0]}, [{"padding": [0, 1]}]),
        ("map", ("x*y + s", *matrices()), {"s": 2.0}, [{"s": matrices()[0][0]}]),
        ("reduce", (matrices()[0], "max", 1), {"keepdims": True}, [{"keepdims": False}]),
        ("layout", (IMAGE, "NHWC"), {"source": "NCHW"}, []),
    ],
)
def test_every_operation_has_a_short_way(executor, name, given, named, others):
    kept = rested(executor, name, *given, **named)
    kept.spare = 5
    want = getattr(ops, name)(kept.device, *given, **named)
    np.testing.assert_array_equal(short(executor, name, *given, **named), want)
    assert kept.spare == 4
    assert all(short(executor, name, *given, **{**named, **other}) is None for other in others)


def test_numbers_of_an_expression_need_no_plan_of_their_own(executor):
    a, _ = matrices()
    kept = rested(executor, "map", "x*s + t", a, s=2.0, t=1)
    kept.spare = 5
    got = short(executor, "map", "x*s + t", a, s=3.0, t=2)
    want = ops.map(kept.device, "x*s + t", a, s=3.0, t=2)
    np.testing.assert_array_equal(got, want)
    assert short(executor, "map", "x*s + t", a, s=3.0, t=2.0) is None


def test_a_device_that_fails_on_the_short_way_is_left_too(executor, monkeypatch):
    a, b = matrices()
    real = ops.gemm

    def failing(dev, *args, **options):
        if dev.uri == "cpu":
            raise KernelFault("it hung")
        return real(dev, *args, **options)

    rested(executor, "gemm", a, b)
    placing.patch(monkeypatch, "gemm", failing)
    np.testing.assert_allclose(gemm(executor, a, b), a @ b, rtol=1e-4, atol=1e-5)
    assert executor.last.plan.device == "egl:0"
    assert executor.costs.nodes["cpu"].reliability.failures > 0
    assert short(executor, "gemm", a, b) is None  # nothing of what was decided before is left


def test_what_every_operation_gives(executor):
    rng = np.random.default_rng(5)
    a, b = matrices(6)
    x = rng.standard_normal((1, 4, 5, 5)).astype(F32)
    w = rng.standard_normal((3, 4, 3, 3)).astype(F32)
    dev = executor.devices["cpu"]
    uris = ("cpu",)
    for got, want in (
        (
            placed(executor, uris, "conv2d", x, w, padding=1),
            ops.conv2d(dev, x, w, padding=1),
        ),
        (placed(executor, uris, "map", "x*y + s", a, b, s=2.0), a * b + F32(2)),
        (placed(executor, uris, "map", "x + y", a, y=a[0]), a + a[0]),
        (placed(executor, uris, "map", lambda v: v * 2, a), a * 2),
        (placed(executor, uris, "reduce", a, "max", 0), a.max(0)),
        (placed(executor, uris, "reduce", a, "mean", 1), a.mean(1)),
        (placed(executor, uris, "layout", x, "NHWC", source="NCHW"), x.transpose(0, 2, 3, 1)),
    ):
        np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda e: gemm(e, np.zeros((2, 3), F32), np.zeros((2, 3), F32)),
        lambda e: gemm(e, [[1.0]], [[1.0]]),
        lambda e: gemm(e, np.zeros((2, 2), np.int8), np.zeros((2, 2), np.int8)),
        lambda e: placed(
            e, BOTH, "conv2d", np.zeros((1, 2, 3, 3), F32), np.zeros((1, 3, 1, 1), F32)
        ),
        lambda e: placed(e, BOTH, "map", "x + q", np.zeros(3, F32)),
        lambda e: placed(e, BOTH, "map", "x", np.zeros(3, F32), 1, 2),
        lambda e: placed(e, BOTH, "reduce", np.zeros(3, F32), "median", None),
        lambda e: placed(e, BOTH, "reduce", np.zeros(3, np.int32), "mean", None),
        lambda e: placed(e, BOTH, "reduce", None, "sum", None),
        lambda e: placed(e, BOTH, "layout", [1.0], "NHWC", source="NCHW"),
        lambda e: placed(e, BOTH, "layout", np.zeros((1, 2, 3, 3), F32), "NCDHW", source="NCHW"),
    ],
)
def test_wrong_arguments_are_the_errors_of_ops(executor, wrong):
    with pytest.raises((TypeError, ValueError)):
        wrong(executor)
    assert executor.last is None


def test_a_device_that_fails_is_left_and_the_call_is_done_elsewhere(executor, monkeypatch):
    a, b = matrices()
    prefer(executor, "egl:0")
    real, failed = ops.gemm, []

    def failing(dev, *args, **options):
        if dev.uri == "egl:0":
            failed.append(dev.uri)
            raise failure
        return real(dev, *args, **options)

    placing.patch(monkeypatch, "gemm", failing)
    errors = [KernelFault("it hung"), OutOfDeviceMemory("none left"), DeviceLost("reset")]
    for failure in errors:  # noqa: B007  # `failing` reads it
        np.testing.assert_allclose(gemm(executor, a, b), a @ b, rtol=1e-4, atol=1e-5)
        assert executor.last.plan.device == "cpu"
    assert len(failed) == 3
    assert executor.costs.nodes["egl:0"].lost == "reset"
    assert executor.costs.nodes["egl:0"].reliability.failures > 0
    gemm(executor, a, b)
    assert len(failed) == 3  # it is not asked again
    with pytest.raises(Impossible, match="it is lost: reset"):
        gemm(executor, a, b, uris=("egl:0",))


def test_an_operand_that_is_lost_is_not_the_fault_of_who_wanted_it(executor, monkeypatch):
    a, b = matrices()
    x = arrays.empty(executor, executor.devices["egl:0"], a.shape, F32, None).fill(a)
    prefer(executor, "cpu")

    ways.know(executor, BOTH, BOTH)

    def gone(*_):
        raise DeviceLost("it was reset")

    with monkeypatch.context() as patch:
        patch.setattr(Queue, "read", gone)
        with pytest.raises(
            DeviceLost, match="egl:0: an operand was lost with the device: it was reset"
        ):
            gemm(executor, x, b)
    assert executor.costs.nodes["egl:0"].lost == "it was reset"
    assert executor.costs.nodes["cpu"].lost == ""
    np.testing.assert_allclose(gemm(executor, a, b), a @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("uri", BOTH)
def test_a_trace_changes_neither_results_nor_errors(executor, uri):
    a, b = matrices()
    with trace_files.recorded(executor, "t") as trace:
        prefer(executor, uri)
        np.testing.assert_allclose(gemm(executor, a, b), a @ b, rtol=1e-4, atol=1e-5)
        out = np.empty_like(a)
        assert gemm(executor, a, b, out) is out
        with pytest.raises(ValueError, match="out: "):
            gemm(executor, a, b, np.empty((2, *a.shape), F32))
        x = arrays.empty(executor, executor.devices["cpu"], a.shape, F32, None).fill(a)
        np.testing.assert_allclose(gemm(executor, x, b), a @ b, rtol=1e-4, atol=1e-5)
    assert chrome.problems(chrome.document([trace])) == []
    assert {span.track[0] for span in trace.spans} == {"host", "cpu", uri}
    assert {span.track[0] for span in trace.spans if span.track[1] == "compute"} == {uri}
    parts = {(span.track, span.name) for span in trace.spans}
    assert {("host", "plan"), ("host", "trace")} <= {track for track, _ in parts}
    assert {(("cpu", "memory"), "allocate"), (("cpu", "h2d"), "fill")} <= parts
    assert any(track[1] == "d2h" for track, _ in parts)
    checks = [span for span in trace.spans if span.name == "check"]
    assert len(checks) == 4  # of one that is refused, too


def test_every_call_is_a_span_that_holds_what_it_consists_of(executor):
    a, b = matrices()
    with trace_files.recorded(executor, "t") as trace:
        x = arrays.empty(executor, executor.devices["cpu"], a.shape, F32, None).fill(a)
        gemm(executor, gemm(executor, x, b), b).numpy()
        gemm(executor, a, b)
        with pytest.raises(ValueError, match="b: "):
            gemm(executor, a, b[1:])
    spans = [span for span in trace.spans if span.track == ("host", "calls")]
    names = ["empty", "fill", "gemm", "gemm", "numpy", "gemm", "gemm"]
    assert [span.name for span in spans] == names
    for inner in trace.spans:
        assert any(s.begin_ns <= inner.begin_ns and inner.end_ns <= s.end_ns for s in spans)
    assert trace.begin_ns <= spans[0].begin_ns
    assert 0 < trace.covered() <= 1
    x.numpy()
    assert len(trace.noted) == 0  # nothing is noted any more


def test_when_all_fail_the_last_error_is_told(executor, monkeypatch):
    def failing(dev, *args, **options):
        raise OutOfDeviceMemory(f"{dev.uri} is full")

    placing.patch(monkeypatch, "gemm", failing)
    with pytest.raises(OutOfDeviceMemory, match="is full"):
        gemm(executor, *matrices())


def test_a_device_that_fails_its_probe_is_no_candidate(executor, monkeypatch):
    def speeds(dev, kind, clock):
        if dev.uri == "egl:0":
            raise DeviceLost("gone while it was probed")
        return [(1e3, 1e-5), (1e6, 1e-3)]

    monkeypatch.setattr(probe, "speeds", speeds)
    executor.costs.speeds.clear()
    gemm(executor, *matrices())
    lost = executor.last.plan.candidates[1]
    assert (lost.device, lost.cost) == ("egl:0", None)
    assert "gone while it was probed" in lost.why


def test_a_device_without_the_operation_is_told_once(executor, monkeypatch):
    asked = []

    def speeds(dev, kind, clock):
        asked.append(dev.uri)
        return [] if dev.uri == "egl:0" else [(1e3, 1e-5), (1e6, 1e-3)]

    monkeypatch.setattr(probe, "speeds", speeds)
    executor.costs.speeds.clear()
    for n in (4, 5):
        gemm(executor, *matrices(n))
        assert "it has no gemm_f32" in executor.last.plan.candidates[1].why
    assert asked == ["cpu", "egl:0"]


def test_probes_measure(opened):
    dev = opened("egl:0")
    made = LocalExecutor([dev], default_clock())
    gemm(made, *matrices(), uris=("egl:0",))
    line = made.costs.speeds["gemm_f32", "egl:0"].line  # of the probes, not of the call
    assert line.at(2e6) > line.at(2e3) > 0
    assert made.costs.links[HOST, "egl:0"].at(1 << 20) > 0


def test_what_was_measured_is_kept_between_runs(opened, tmp_path, monkeypatch):
    cpu = opened("cpu")
    kept = profile.Profile(str(tmp_path))
    made = LocalExecutor([cpu], default_clock(), kept)
    gemm(made, *matrices(), uris=("cpu",))
    points = json.loads((tmp_path / "profile.json").read_text())
    assert len(points["devices"]) == 1

    def never(*_):
        raise AssertionError("it was measured again")

    monkeypatch.setattr(probe, "speeds", never)
    again = LocalExecutor([cpu], default_clock(), profile.Profile(str(tmp_path)))
    known = again.costs.speeds["gemm_f32", "cpu"].line
    assert known == made.costs.speeds["gemm_f32", "cpu"].line
    gemm(again, *matrices(), uris=("cpu",))


@pytest.mark.parametrize(
    "entry",
    [5, {"gemm_f32": 3}, {"gemm_f32": [[1, -1]]}, {"gemm_f32": [["x", 1]]}, {"gemm_f32": []}],
)
def test_an_entry_that_makes_no_sense_is_measured_anew(opened, tmp_path, entry):
    info = opened("cpu").info
    kept = profile.Profile(str(tmp_path))
    kept.put(info, {"gemm_f32": [(1e3, 1e-5), (1e6, 1e-3)]})
    path = tmp_path / "profile.json"
    document = json.loads(path.read_text())
    document["devices"] = dict.fromkeys(document["devices"], entry)
    path.write_text(json.dumps(document))
    assert kept.points(info) == {}


def test_nowhere_to_keep_it(opened, tmp_path, caplog):
    info = opened("cpu").info
    profile.Profile("").put(info, {"x": [(1.0, 1.0), (2.0, 2.0)]})
    assert profile.Profile("").points(info) == {}
    (tmp_path / "home").write_text("a file, not a folder")
    profile.Profile(str(tmp_path / "home")).put(info, {"x": [(1.0, 1.0), (2.0, 2.0)]})
    assert "is not kept" in caplog.text


def test_the_explanation_names_everybody_and_the_times(executor):
    for _ in range(3):
        gemm(executor, *matrices())
    executor.costs.nodes["egl:0"].lost = "reset"
    told = executor.last.so_far.explain()
    assert told.splitlines()[1].startswith("-> cpu: ")
    assert "egl:0: " in told
    assert "times what was predicted" in told
    executor.forget()
    gemm(executor, *matrices())
    assert "egl:0: cannot: it is lost: reset" in executor.last.so_far.explain()
    executor.costs.links["cpu", "egl:0"] = executor.costs.links[HOST, "egl:0"]
    devices = explain.devices(list(executor.devices.values()), executor.costs, {})
    for words in ("software gpu", "unified with the host", "shares cpu with egl:0", "no peers",
                  "shares cpu with cpu", "from the host", "measured: ", "GFLOPS, ", "s a call; ",
                  "lost: reset", "from cpu", "to egl:0"):  # fmt: skip
        assert words in devices


@pytest.mark.parametrize(
    ("value", "text"), [(2.0, "2 s"), (0.0123, "12.3 ms"), (4.5e-5, "45 us"), (3e-8, "30 ns")]
)
def test_times_as_people_read_them(value, text):
    assert written(value) == text


def test_a_node_starts_idle_and_reliable():
    node = DeviceCosts(1 << 20)
    assert (node.queued_s, node.reliability.risk_s(1.0), node.lost) == (0.0, 0.0, "")
