"""The time of a map is predicted from its operations, so a new expression is not measured first.

Somebody who types one expression after the other otherwise waits for probes of each.

When this fails, each new expression of a user waits for probes again.
"""

import math
import random

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.errors import ImageError
from sparkle_drv.mesh.links.line import Line
from sparkle_drv.ops.expression.grammar import parse
from sparkle_drv.sched.journal import journal
from sparkle_drv.sched.model.costs import Costs, DeviceCosts
from sparkle_drv.sched.model.speed import Speed
from sparkle_drv.sched.operations.compose import outline
from sparkle_drv.sched.run import probe
from sparkle_drv.testing import sim
from sparkle_drv.testing.simulated import Rate, SimDevice, SimMachine

F32 = np.float32
X = np.linspace(0.5, 1.5, 3000, dtype=F32).reshape(60, 50)
Y = X[::-1].copy()
BASE, CHAIN = "map_f32:x+y", "map_f32:arithmetic"


def drawn(chance, depth):
    """A random expression of x and y."""
    if not depth:
        return chance.choice("xy")
    if chance.random() < 0.6:
        sign = chance.choice("+-*/")
        return f"({drawn(chance, depth - 1)} {sign} {drawn(chance, depth - 1)})"
    return f"{chance.choice(['exp', 'sin', 'relu', 'sqrt', 'tanh'])}({drawn(chance, depth - 1)})"


@pytest.fixture
def probes(monkeypatch):
    """The names of the classes that are measured from now on."""
    asked, real = [], probe.speeds

    def speeds(device, kind, clock):
        asked.append(kind.name)
        return real(device, kind, clock)

    monkeypatch.setattr(probe, "speeds", speeds)
    return asked


@pytest.fixture
def pair():
    near = SimDevice("sim:near", {}, other=Rate(1e-3, 1e6))
    far = SimDevice("sim:far", {}, to_s=(1e-6, 1e12), other=Rate(1e-6, 1e12))
    with sim.on(SimMachine({d.uri: d for d in (near, far)}, random.Random(1))):
        yield ["sim:near", "sim:far"]


@pytest.mark.parametrize("uris", [["cpu"], ["cpu", "sim:far"]], ids="+".join)
def test_a_new_expression_launches_nothing_but_itself(uris, pair, probes):
    chance = random.Random(7)
    with sp.init(uris, profile=False, topology="single") as ctx:
        ctx.map("x + y", x=X, y=Y)
        assert len(probes) == 4 * len(uris)
        probes.clear()
        for _ in range(20):
            text = f"x * y + {drawn(chance, 3)}"
            launches = sum(device.default_queue.submitted for device in ctx.devices)
            got = ctx.map(text, x=X, y=Y)
            launches = sum(d.default_queue.submitted for d in ctx.devices) - launches
            moves = 3 if ctx.last_plan.device != "cpu" else 0  # two operands in, the result out
            assert launches <= 1 + moves, text
            np.testing.assert_array_equal(got.shape, X.shape)
    assert probes == []


def test_a_graph_of_new_expressions_measures_nothing(probes):
    with sp.init(["cpu"], profile=False) as ctx:
        ctx.map("x + y", x=X, y=Y)
        probes.clear()
        for text in ("sin(x) * y", "x * x * y + exp(y)", "relu(x - y)"):
            with ctx.graph() as graph:
                out = graph.map(text, x=X, y=Y)
            graph.run()
            assert out.numpy().shape == X.shape
    assert probes == []


def test_the_prediction_is_the_sum_of_a_launch_the_bytes_and_the_operations():
    costs = Costs(nodes={"d": DeviceCosts(0)})
    costs.speeds[BASE, "d"] = Speed(Line(1e-6, 1e-9))
    costs.speeds[CHAIN, "d"] = Speed(Line(5e-6, 9e-9))
    costs.predicted("new", "d", BASE, [(CHAIN, 0.5)])
    speed = costs.speeds["new", "d"]
    assert speed.at(1e4) == pytest.approx(1e-6 + 1e4 * (1e-9 + 0.5 * 8e-9))
    assert costs.basis("new", "d") == "predicted from its operations, corrected by 0 calls"
    assert costs.basis(BASE, "d") == ""
    costs.predicted("other", "d", BASE, [("map_f32:unknown", 1.0)])
    assert ("other", "d") not in costs.speeds


def test_a_chain_that_seems_cheaper_than_its_bytes_costs_nothing():
    costs = Costs(nodes={"d": DeviceCosts(0)})
    costs.speeds[BASE, "d"] = Speed(Line(1e-6, 1e-9))
    costs.speeds[CHAIN, "d"] = Speed(Line(1e-6, 5e-10))
    costs.predicted("new", "d", BASE, [(CHAIN, 3.0)])
    assert costs.speeds["new", "d"].line == Line(1e-6, 1e-9)


@pytest.mark.parametrize("wrong", [0.2, 5.0])
def test_a_wrong_prediction_is_corrected_by_a_few_calls(wrong):
    speed = Speed(Line(1e-6, 1e-9)).and_more(2e-9)
    took = speed.at(1e6) * wrong
    for _ in range(6):
        speed.observe(1e6, took)
    assert speed.at(1e6) == pytest.approx(took, rel=0.15)


def test_the_bend_of_the_sum_applies_to_its_part_of_the_time_only():
    base = Speed.of([(1e4, 1e-5), (1e4, 1.01e-5), (1e6, 3e-4), (1e6, 3.03e-4), (1e8, 1e-1)])
    much = base.and_more(1.0)
    assert much.at(1e6) == pytest.approx(1e6, rel=1e-3)
    assert base.and_more(0.0).at(1e6) == pytest.approx(base.at(1e6), rel=0.15)


def test_plans_say_what_the_prediction_rests_on_and_replay_the_same():
    with sp.init(["cpu"], profile=False, topology="single") as ctx:
        notes = ctx._executor.journal = journal.Journal(ctx._executor.costs)
        for i in range(12):
            ctx.map("sin(x) * y + 3", x=X, y=Y)
            if not i:
                assert "corrected by 0 calls" in ctx.explain_last_plan()
        text = ctx.explain_last_plan()
        assert "predicted from its operations, corrected by " in text
        assert "corrected by 0 calls" not in text
        assert ", predicted" in ctx.explain_devices()
        pairs = list(journal.replay(notes.lines))
    assert len(pairs) >= 2
    assert all(stands == now for stands, now in pairs)


def test_a_shared_call_says_what_its_prediction_rests_on(pair):
    with sp.init(pair, profile=False) as ctx:
        ctx.map("x * y - 1", x=X, y=Y, shards="each")
        assert "sim:far: predicted from its operations" in ctx.explain_last_plan()


def test_more_and_dearer_operations_are_predicted_to_take_longer():
    wide = np.ones((400, 1000), F32)
    with sp.init(["cpu"], profile=False, topology="single") as ctx:
        times = []
        for text in ("x + 1", "sin(x) + cos(x)", "+".join(f"sin(x*{i})" for i in range(1, 12))):
            times.append(ctx.plan("map", text, x=wide).predicted_s)
    assert times == sorted(times)
    assert times[2] > 2 * times[0]


def test_a_device_that_cannot_mix_types_is_not_asked_to():
    whole = np.arange(3000, dtype=np.int32).reshape(60, 50)
    with sp.init(["egl:0", "cpu"], profile=False, topology="single") as ctx:
        there = ctx.devices[0].default_queue
        ctx.map("x + y", x=X, y=Y)
        before = there.submitted
        got = ctx.map("x * n", x=X, n=whole)
        assert ctx.last_plan.device == "cpu"
        assert "it has no map_f64:x0*x1" in ctx.explain_last_plan()
        assert there.submitted == before
    np.testing.assert_allclose(got, X * whole)


WHOLE, BYTES = np.arange(5, dtype=np.int32), np.arange(5, dtype=np.uint8)
HAS_NOT = r"egl:0: it has no map_.*computes in i32 and u8, but egl:0 computes in one type"


def of_order(ctx, able, **how):
    """Makes a call that egl:0 can do, or a call of the same class that it cannot do."""
    x, y = (WHOLE, BYTES) if able else (BYTES, WHOLE)
    np.testing.assert_array_equal(ctx.map("x*2 + y", x=x, y=y, **how), x * 2 + y)


@pytest.mark.parametrize("first", [True, False])
def test_one_call_of_a_class_says_nothing_of_what_a_device_can_do(first):
    with sp.init(["egl:0"], profile=False) as ctx:
        for able in (first, not first, first):
            if able:
                of_order(ctx, able)
            else:
                with pytest.raises(TypeError, match=HAS_NOT):
                    of_order(ctx, able)
    with sp.init(["egl:0", "cpu"], profile=False) as ctx:
        for able in (first, not first):
            of_order(ctx, able, shards="each")
            assert ("egl:0" in ctx.last_plan.shares.parts) == able
            of_order(ctx, able)


@pytest.mark.parametrize("first", [True, False])
def test_one_task_of_a_class_says_nothing_of_what_a_device_can_do(first):
    with sp.init(["egl:0"], profile=False) as ctx:
        for able in (first, not first):
            with ctx.graph() as graph:
                out = graph.map("abs(x)" if able else "floor(x)", x=WHOLE)
            if able:
                graph.run()
                np.testing.assert_array_equal(out.numpy(), WHOLE)
            else:
                with pytest.raises(TypeError, match=r"it has no map_i32:.* i32 has no floor"):
                    graph.run()


def test_plans_name_the_failed_probe_that_a_prediction_needs(pair, monkeypatch):
    real = probe.speeds

    def speeds(device, kind, clock):
        if device.uri == "sim:far" and kind.name == BASE:
            raise ImageError("no such kernel")
        return real(device, kind, clock)

    monkeypatch.setattr(probe, "speeds", speeds)
    with sp.init(pair, profile=False, topology="single") as ctx:
        ctx.map("x - y", x=X, y=Y)
        assert ctx.last_plan.device == "sim:near"
        assert "its probe failed: no such kernel" in ctx.explain_last_plan()
        monkeypatch.setattr(probe, "speeds", real)
        ctx.map("x - y * 2", x=X, y=Y)
        assert ctx.last_plan.device == "sim:far"


def test_a_table_that_is_kept_needs_no_probe_in_the_next_process(probes, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARKLE_HOME", str(tmp_path))
    for count in (4, 0):
        with sp.init(["cpu"], topology="single") as ctx:
            ctx.map(f"x * {count} + exp(y)", x=X, y=Y)
        assert len(probes) == count
        probes.clear()


def test_the_scatter_of_a_prediction_is_wide_until_calls_agree():
    speed = Speed(Line(1e-6, 1e-9), noise=0.02).and_more(0.0)
    assert speed.noise > 0.2
    for _ in range(60):
        speed.observe(1e5, 2e-4)
    assert speed.noise < 0.1
    assert math.isclose(speed.at(1e5), 2e-4, rel_tol=0.05)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("relu(2.5 * x) + y", "relu(#*x0)+x1"),
        (" a+ .5e-3", "x0+#"),
        ("x1*2", "x0*#"),
        ("-1 - x", "#-x0"),
        ("x ** 3 + 1", "x0**3+1"),
        ("pow(x, 2.5) * 2", "x0**2.5*2"),
    ],
)
def test_an_outline_has_no_numbers_but_those_that_say_what_is_computed(text, words):
    assert outline(parse(text)) == words


def test_a_long_expression_is_a_digest_of_what_is_computed():
    same, other = (outline(parse(" + ".join([f"sin({n}*x)"] * 40 + [tail]))) for n, tail in
                   ((2, "x"), (2, "x*x")))  # fmt: skip
    again = outline(parse(" + ".join(["sin(3*y)"] * 40 + ["y"])))
    assert "operations" in same
    assert same != other
    assert again == same
