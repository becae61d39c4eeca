"""Bad input to a mesh, and failures in it, end in a typed error that names the argument or the
device. Nothing is left behind. Wrong shapes, dtypes and kinds of arrays are in
test_mesh_mesh.py, test_mesh_moves.py and test_mesh_context_arrays.py, too.

When this fails, a wrong array given to a mesh leaves its devices in an unknown state.
"""

from __future__ import annotations

import gc
import signal
import threading
import time
from contextlib import ExitStack
from itertools import permutations

import forked
import numpy as np
import pytest
from _inside.collectives import star

import sparkle_drv as sp
from sparkle_drv.errors import DeviceLost, SparkleError
from sparkle_drv.mesh.collective.choose import plan_all_reduce
from sparkle_drv.mesh.links.line import Line
from sparkle_drv.mesh.links.network import Network
from sparkle_drv.mesh.links.probe import NoTimes
from sparkle_drv.mesh.mesh import Mesh
from sparkle_drv.mesh.survey_result import SurveyResult
from sparkle_drv.mesh.topology import Topology
from sparkle_drv.testing import sim
from sparkle_drv.testing.faults import Fault, Schedule
from sparkle_drv.testing.sim_links import simulated

URIS = ("cpu", "egl:0")


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = set(threading.enumerate())
    yield
    if not set(threading.enumerate()) <= before:
        gc.collect()  # errors keep what their frames held
    assert set(threading.enumerate()) <= before


@pytest.fixture(scope="module", autouse=True)
def no_arrays_are_left_to_the_next_file():
    yield
    gc.collect()  # errors keep what their frames held


@pytest.fixture(scope="module")
def mesh(opened):
    with Mesh([opened(uri) for uri in URIS]) as one:
        yield one


def arrays_of(mesh, shape=1000, dtype=np.float32):
    return [d.array(np.full(shape, at + 1, dtype)) for at, d in enumerate(mesh.devices.values())]


def calls(mesh, given, outs):
    """Each collective that reads `given` and writes `outs`, or `given` itself."""
    return {
        "all_reduce": lambda: mesh.all_reduce(given),
        "broadcast": lambda: mesh.broadcast(given, given[0]),
        "scatter": lambda: mesh.scatter(given[0], outs),
        "gather": lambda: mesh.gather(given, outs[0]),
        "all_gather": lambda: mesh.all_gather(given, outs),
        "reduce_scatter": lambda: mesh.reduce_scatter(given, outs),
    }


def test_a_mesh_of_one_has_nothing_to_move(opened):
    with Mesh([opened("egl:0")]) as one:
        (x,), (out,) = arrays_of(one), arrays_of(one)
        for call in calls(one, [x], [out]).values():
            call()
        one.all_reduce([x], "mean")
        assert (x.numpy() == 1).all()
        assert (out.numpy() == 1).all()
        assert one.moved == {}
        assert one.topology.adjacency().tolist() == [[0]]
        with pytest.raises(ValueError, match="src: expected one of egl:0, got cpu"):
            one.best_route("cpu", "egl:0", 1)
        with pytest.raises(ValueError, match="egl:0"):
            one.copy(out, x)


def test_a_device_twice_or_none(opened):
    cpu = opened("cpu")
    for devices, got in (([cpu, cpu], "cpu, cpu"), ([], "none")):
        with pytest.raises(ValueError, match=f"devices: expected .* each once, got {got}"):
            Mesh(devices)
    with sp.init(list(URIS), profile=False) as ctx, pytest.raises(ValueError, match="devices: "):
        ctx.create_mesh(["cpu", "egl:0", "cpu:0"])


@pytest.mark.parametrize("clock", [lambda: 0.0, lambda: float("inf")])
def test_ways_that_take_no_time_or_for_ever_are_named(opened, clock):
    with (
        Mesh([opened(uri) for uri in URIS], clock=clock) as one,
        pytest.raises(NoTimes, match=r"^measurement of cpu to egl:0: expected a plausible time"),
    ):
        one.all_reduce(arrays_of(one))


def test_free_links_have_plans():
    network = Network(tuple("abc"), dict.fromkeys(permutations("abc", 2), Line(0.0, 0.0)))
    for nbytes in (4, 1 << 26):
        plan = plan_all_reduce(network, nbytes, 4)
        assert 0 <= plan.bound_s <= plan.predicted_s < 1e-6


def test_very_slow_links_have_plans():
    plan = plan_all_reduce(star([1.0, 1e9, 1e9]), 1 << 26, 4)
    assert plan.bound_s <= plan.predicted_s <= 1.2 * plan.bound_s


def one_way(opened, missing):
    """A mesh of three where one way was not measured."""
    uris = ("cpu", "egl:0", "cuda:0")
    ways = {
        pair: [(n, 1e-5 + n / 1e9) for n in (1 << 12, 1 << 20)]
        for pair in permutations(uris, 2)
        if pair not in missing
    }
    one = Mesh([opened(uri) for uri in uris])
    one._topology = Topology(uris, SurveyResult(ways), dict.fromkeys(ways, "staged"))
    return one


def test_one_way_only(opened):
    with one_way(opened, [("egl:0", "cpu")]) as one:
        arrays = arrays_of(one)
        whole, parts = arrays_of(one, 9), arrays_of(one, 3)
        for name, call in {
            **calls(one, whole, parts),
            "gather": lambda: one.gather(parts, whole[0]),
            "all_gather": lambda: one.all_gather(parts, whole),
        }.items():
            with pytest.raises(ValueError, match="expected a link from egl:0 to cpu, got none"):
                call()
            for array, value in zip((*whole, *parts), (1, 2, 3, 1, 2, 3), strict=True):
                assert (array.numpy() == value).all(), name
        route = one.copy(arrays[0], arrays[1])
        assert route.places == ("egl:0", "cuda:0", "cpu")
        assert (arrays[0].numpy() == 2).all()
    with one_way(opened, [("egl:0", "cpu"), ("cuda:0", "cpu")]) as one:
        arrays = arrays_of(one)
        with pytest.raises(ValueError, match="dst: expected a place that egl:0 reaches, got cpu"):
            one.copy(arrays[0], arrays[1])


def test_bad_arrays_change_nothing(opened, mesh):
    good, outs = arrays_of(mesh), arrays_of(mesh)
    closed = arrays_of(mesh)[1]
    closed.close()
    with sp.open("egl:0") as other:
        foreign = other.array(np.ones(1000, np.float32))
        short = arrays_of(mesh, 999)[1]
        ints = arrays_of(mesh, dtype=np.int32)
        for bad in (closed, foreign, short, ints[1], None, np.ones(1000, np.float32)):
            for name in ("all_reduce", "broadcast", "reduce_scatter"):
                with pytest.raises((TypeError, ValueError), match=r"^arrays\[1\]: expected "):
                    calls(mesh, [good[0], bad], outs)[name]()
            for name in ("scatter", "all_gather"):
                with pytest.raises((TypeError, ValueError), match=r"^(arrays|outs)(\[1\])?: "):
                    calls(mesh, good, [outs[0], bad])[name]()
            with pytest.raises((TypeError, ValueError), match=r"^dst: |^arrays: "):
                mesh.gather(good, bad)
    with pytest.raises(TypeError, match="op: expected an array of floats for 'mean', got int32"):
        mesh.all_reduce(ints, "mean")
    for array, value in zip((*good, *outs), (1, 2, 1, 2), strict=True):
        assert (array.numpy() == value).all()


def test_arrays_of_another_layout_are_refused(mesh):
    """Their bytes would be taken for those of other elements."""
    shape = (1, 4, 4, 4)
    devices = list(mesh.devices.values())
    nchw, nhwc = (
        [d.array(np.ones(shape, np.float32), layout=layout) for d in devices]
        for layout in ("NCHW", "NHWC")
    )
    mixed = [nchw[0], nhwc[1]]
    for said, call in (
        (r"^arrays\[1\]: expected .* NCHW, got .* NHWC", lambda: mesh.all_reduce(mixed)),
        (r"^arrays\[1\]: expected .* NCHW, got .* NHWC", lambda: mesh.broadcast(mixed, nchw[0])),
        (r"^arrays: expected parts of outs, .* NHWC", lambda: mesh.all_gather(nchw, nhwc)),
        (r"^dst: expected .* NCHW, got .* NHWC", lambda: mesh.copy(nhwc[1], nchw[0])),
    ):
        with pytest.raises(ValueError, match=said):
            call()


def test_a_copy_takes_no_other_elements(mesh):
    a, b = mesh.devices.values()
    src = a.array(np.arange(4, dtype=np.int32))
    for bad in (np.zeros(4, np.float32), np.zeros((2, 2), np.int32), np.zeros(5, np.int32)):
        dst = b.array(bad)
        with pytest.raises(ValueError, match=r"^dst: expected int32\[4\], got "):
            mesh.copy(dst, src)
        assert not dst.numpy().any()


def test_what_is_no_device_or_dtype(opened, mesh):
    with pytest.raises(TypeError, match=r"^devices\[0\]: expected a Device, got 'cpu'"):
        Mesh(["cpu"])
    with pytest.raises(TypeError, match="other: expected a Device, got 'cpu'"):
        opened("egl:0").peer("cpu")
    for bad in ("V0", "floaty", "int8", object, 3):
        with pytest.raises(TypeError, match=r"^dtype: expected float32"):
            mesh.plan_all_reduce(8, bad)


def test_any_number_of_elements(opened):
    with Mesh([opened(uri) for uri in (*URIS, "cuda:0")]) as one:
        for count in (0, 1, 2, 3, 7, 65, 1001):
            arrays = arrays_of(one, count)
            one.all_reduce(arrays)
            cut = [count // 2, 0, count - count // 2]
            parts = [d.array(np.zeros(n, np.float32)) for d, n in zip(one.devices.values(), cut)]  # noqa: B905
            one.reduce_scatter(arrays, parts)
            one.all_gather(parts, arrays)
            for array in arrays:
                assert array.numpy().tolist() == [18.0] * count, count


class Three:
    """A mesh of three simulated devices that have links."""

    def __init__(self, stack: ExitStack) -> None:
        machine, network = simulated(star([1e9] * 3))
        stack.enter_context(sim.on(machine))
        self.devices = [stack.enter_context(sp.open(uri)) for uri in network.places]
        self.mesh = stack.enter_context(Mesh(self.devices))
        assert self.mesh.topology.links

    def loses(self, at: int) -> None:
        """The last device is unplugged at its `at`-th job from now on."""
        sim.apply(Schedule(0, [Fault("job", at, "unplug")]), self.devices[2])


def _again(mesh, arrays):
    for _ in range(10):
        mesh.all_reduce(arrays)


@pytest.mark.parametrize("at", [1, 3])
def test_a_device_lost_in_a_collective_is_named(at):
    with ExitStack() as stack:
        three = Three(stack)
        arrays = arrays_of(three.mesh)
        three.loses(at)
        with pytest.raises(SparkleError, match=r"all_reduce: .*sim:d2.* hold partial results"):
            _again(three.mesh, arrays)
        # It stays lost; the others go on.
        with pytest.raises(SparkleError, match="sim:d2"):
            three.mesh.broadcast(arrays, "sim:d0")
        with Mesh(three.devices[:2]) as two:
            given = arrays_of(two)
            two.all_reduce(given)
            assert (given[1].numpy() == 3).all()


def test_a_device_lost_after_a_collective_leaves_the_others_their_results():
    with ExitStack() as stack:
        three = Three(stack)
        arrays = arrays_of(three.mesh)
        three.mesh.all_reduce(arrays)
        three.loses(1)
        with pytest.raises(DeviceLost):
            sp.ops.map(three.devices[2], "a + 1", a=arrays[2]).numpy()
        for array in arrays[:2]:
            assert (array.numpy() == 6).all()


CTRL_C = """
import sys, threading, time, traceback
import numpy as np
import sparkle_drv as sp
from sparkle_drv.mesh.mesh import Mesh

devices = [sp.open(uri) for uri in ("cpu", "egl:0")]
before = set(threading.enumerate())
mesh = Mesh(devices)
arrays = [d.array(np.ones(1 << 22, np.float32)) for d in devices]
mesh.all_reduce(arrays, "max")
print("going", flush=True)
try:
    while True:
        mesh.all_reduce(arrays, "max")
except KeyboardInterrupt as error:
    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    print("run" in frames, error, flush=True)
for _ in range(200):  # a thread whose start was interrupted ends when it first runs
    left = set(threading.enumerate()) - before
    if not left:
        break
    time.sleep(0.01)
print(len(left), flush=True)
mesh.all_reduce(arrays, "max")
print([float(a.numpy().min()) for a in arrays], flush=True)
mesh.close()
for d in devices:
    d.close()
"""


@pytest.mark.parametrize("after_s", [0.01, 0.15])
def test_ctrl_c_says_what_the_arrays_hold_and_leaves_no_thread(after_s):
    with forked.start(CTRL_C) as process:
        assert process.line() == "going\n"
        time.sleep(after_s)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    said, threads, values = out.splitlines()
    assert (err, process.returncode) == ("", 0)
    partial = "True all_reduce: interrupted; the arrays hold partial results"
    assert said == partial or said.startswith("False ")
    assert (threads, values) == ("0", "[1.0, 1.0]")


def test_a_reduction_that_a_device_lacks_changes_nothing(mesh):
    given, outs = arrays_of(mesh, 8, np.float64), arrays_of(mesh, 4, np.float64)
    for call in (mesh.all_reduce, lambda x: mesh.reduce_scatter(x, outs)):
        with pytest.raises(TypeError, match=r"arrays: egl:0 computes .*, not float64"):
            call(given)
    assert [array.numpy().tolist() for array in given] == [[1.0] * 8, [2.0] * 8]


def test_arrays_that_share_memory_are_refused(mesh):
    given = arrays_of(mesh, 128)
    half = given[0].buffer.view(256, 256).array(np.float32, 64)
    outs = [half, mesh.devices["egl:0"].array(np.zeros(64, np.float32))]
    inside = {
        "reduce_scatter": lambda: mesh.reduce_scatter(given, outs),
        "scatter": lambda: mesh.scatter(given[0], outs),
        "gather": lambda: mesh.gather(outs, given[0]),
    }
    for name, call in inside.items():
        with pytest.raises(ValueError, match="expected memory that is not read"):
            call()
        assert (given[0].numpy() == 1).all(), name


def test_two_devices_on_the_same_memory_are_refused(opened):
    host = np.ones(64, np.float32)
    with Mesh([opened("cpu:c0"), opened("cpu:c1")]) as one:
        wrapped = [sp.wrap(d, host).array(np.float32, 64) for d in one.devices.values()]
        with pytest.raises(ValueError, match="arrays: expected arrays with separate memory"):
            one.all_reduce(wrapped)
    assert (host == 1).all()


@pytest.mark.parametrize("nbytes", [-4, 6, 1.5, True, "4", None, float("nan"), 1 << 80])
def test_sizes_that_mean_nothing(mesh, nbytes):
    with pytest.raises((TypeError, ValueError), match="nbytes: "):
        mesh.plan_all_reduce(nbytes)
    if nbytes != 6:
        with pytest.raises((TypeError, ValueError), match="nbytes: "):
            mesh.best_route("cpu", "egl:0", nbytes)


def test_routes_take_aliases_and_name_wrong_ends(mesh):
    assert mesh.best_route("cpu:0", "egl:0", 8).places == ("cpu", "egl:0")
    with pytest.raises(TypeError, match="dst: expected a URI, got int"):
        mesh.explain_route("cpu", 3, 8)
