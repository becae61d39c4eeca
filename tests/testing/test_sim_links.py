"""Links and ports of simulated machines, and a clock that threads share: one timeline, whoever runs
first.

When this fails, tests of the mesh rest on links that do not keep their stated rates.

`make fuzz-mesh` runs the seeded parts at full size (SPARKLE_FUZZ_MESH=1).
"""

from __future__ import annotations

import gc
import os
import random
import threading
from contextlib import ExitStack
from itertools import accumulate, pairwise, permutations

import numpy as np
import pytest
from _inside.collectives import linked

import sparkle_drv as sp
from sparkle_drv.errors import DriverCallError, SparkleError
from sparkle_drv.mesh.collective.choose import plan_all_reduce
from sparkle_drv.mesh.collective.choose_moves import (
    plan_all_gather,
    plan_broadcast,
    plan_gather,
    plan_reduce_scatter,
    plan_scatter,
)
from sparkle_drv.mesh.lanes.array_runner import Ways, run_on_arrays
from sparkle_drv.mesh.lanes.program import Lane, Program, Reduce, Region, RegionCopy, Step
from sparkle_drv.mesh.lanes.runner import clocked
from sparkle_drv.mesh.links.line import Line
from sparkle_drv.mesh.links.network import Network, Port
from sparkle_drv.mesh.mesh import Mesh
from sparkle_drv.testing import sim
from sparkle_drv.testing.sim_clock import Clock
from sparkle_drv.testing.sim_links import LinkFault, simulated

LONG = bool(os.environ.get("SPARKLE_FUZZ_MESH"))
MACHINES = 200 if LONG else 8
PROGRAMS, RUNS = (200, 20) if LONG else (8, 3)
SCHEDULES = 200 if LONG else 20
RATE = 1e9


class Rig:
    """The devices of a simulated network, opened; runs programs on arrays of a dtype."""

    def __init__(self, stack: ExitStack, network: Network, seed: int = 0, noise: float = 0.0):
        self.machine, self.network = simulated(network, seed, noise)
        stack.enter_context(sim.on(self.machine))
        self.devices = [stack.enter_context(sp.open(uri)) for uri in self.network.places]
        self.clocked = clocked(self.devices, lambda: 0.0)
        self.ways = stack.enter_context(Ways({device.uri: device for device in self.devices}))

    def arrays(self, nbytes: int, value: float = 1.0):
        return {d.uri: d.array(np.full(nbytes // 4, value, np.float32)) for d in self.devices}

    def run(self, program: Program, arrays=None, nbytes: int = 1 << 16):
        return run_on_arrays(program, arrays or self.arrays(nbytes), self.ways, **self.clocked)

    def took_s(self, *pairs, nbytes: int = 1 << 16) -> list[float]:
        """When transfers that begin at once end, after now."""
        arrays = self.arrays(nbytes)
        begin = self.machine.clock.now_s
        steps = tuple(step(at, *pair, nbytes) for at, pair in enumerate(pairs))
        ran = self.run(Program(steps), arrays)
        return [one.end_s - begin for one in ran]


def step(number, source, to, nbytes, after=()):
    src, dst = Region(source, "data", 0, nbytes), Region(to, "temp", 0, nbytes)
    return Step(number, Lane(source, to), RegionCopy(src, dst), after)


def full(names: str, ports=None, latency_s: float = 0.0, rate: float = RATE) -> Network:
    line = Line(latency_s, 1 / rate)
    return Network(tuple(names), dict.fromkeys(permutations(names, 2), line), ports or {})


@pytest.fixture
def rig():
    before = set(threading.enumerate())
    with ExitStack() as stack:
        yield lambda *a, **k: Rig(stack, *a, **k)
    gc.collect()  # errors keep what their frames held
    assert set(threading.enumerate()) <= before


A, B, C = "sim:a", "sim:b", "sim:c"
N = 1 << 16
ALONE = N / RATE


def test_a_transfer_takes_the_latency_and_the_rate_of_its_link(rig):
    one = rig(full("ab", latency_s=1e-3))
    assert one.took_s((A, B)) == pytest.approx([1e-3 + ALONE])
    assert one.took_s((A, B), (B, A)) == pytest.approx([1e-3 + ALONE] * 2)
    assert one.ways.moved() == {"peer": 3 * N}


def test_transfers_share_a_port(rig):
    one = rig(full("abc", {"a": Port(send=RATE)}))
    assert one.took_s((A, B)) == pytest.approx([ALONE])
    assert one.took_s((A, B), (A, C)) == pytest.approx([2 * ALONE] * 2)
    assert one.took_s((A, B), (C, A)) == pytest.approx([ALONE] * 2)  # receiving is apart


def test_a_link_that_is_not_duplex_carries_both_ways_at_half_the_rate(rig):
    one = rig(full("ab", {"a": Port(both=RATE)}))
    assert one.took_s((A, B), (B, A)) == pytest.approx([2 * ALONE] * 2)


def test_a_flow_that_joins_halfway_slows_the_other_from_there_on(rig):
    half = N // 2
    one = rig(full("abc", {"a": Port(send=RATE)}))
    first, wait, second = (
        step(0, A, B, N),
        step(1, B, C, half),
        step(2, A, C, N, (1,)),
    )
    arrays = one.arrays(N)
    begin = one.machine.clock.now_s
    ends = [r.end_s - begin for r in one.run(Program((first, wait, second)), arrays)]
    # Half of the first is there when the second joins; then each has half the port.
    assert ends == pytest.approx([1.5 * ALONE, 0.5 * ALONE, 2.0 * ALONE])


def test_a_slow_flow_leaves_its_share_to_the_others(rig):
    network = full("abc", {"a": Port(send=RATE)})
    links = {**network.links, ("a", "b"): Line(0.0, 4 / RATE)}
    one = rig(Network(network.places, links, network.ports))
    assert one.took_s((A, B), (A, C)) == pytest.approx([4 * ALONE, ALONE / 0.75])


def test_without_a_link_bytes_go_over_the_host(rig):
    one = rig(Network(("a", "b"), {("a", "b"): Line(0.0, 1 / RATE)}))
    assert one.took_s((A, B)) == pytest.approx([ALONE])
    one.took_s((B, A))
    assert one.ways.moved() == {"peer": N, "staged": N}


SIZES = (0, 1, 250, 4096, 50_000, 262_144)
"""Elements at a place."""


def collective(name: str, network: Network, chance: random.Random):
    """Its plan, how many elements each place gives and gets, and the ranges of its part."""
    places, root = network.places, chance.choice(network.places)
    parts = list(accumulate((chance.choice(SIZES) for _ in places), initial=0))
    cut = dict(zip(places, pairwise(parts), strict=True))
    own = {place: end - begin for place, (begin, end) in cut.items()}
    whole, given = dict.fromkeys(places, parts[-1]), chance.choice(SIZES[1:])
    nbytes = [(4 * begin, 4 * (end - begin)) for begin, end in cut.values()]
    if name == "all_reduce":
        return plan_all_reduce(network, 4 * given, 4), dict.fromkeys(places, given), {}, cut, root
    if name == "broadcast":
        plan = plan_broadcast(network, root, 4 * given, 4)
        return plan, dict.fromkeys(places, given), {}, cut, root
    if name == "scatter":
        return plan_scatter(network, root, nbytes), {root: parts[-1]}, own, cut, root
    if name == "gather":
        return plan_gather(network, root, nbytes), own, {root: parts[-1]}, cut, root
    if name == "all_gather":
        return plan_all_gather(network, nbytes), own, whole, cut, root
    return plan_reduce_scatter(network, nbytes), whole, own, cut, root


NAMES = ("all_reduce", "broadcast", "scatter", "gather", "all_gather", "reduce_scatter")


@pytest.mark.unmeasured
@pytest.mark.parametrize("seed", range(MACHINES))
def test_a_collective_takes_what_was_predicted_and_no_less_than_the_bound(rig, seed):
    one, chance = rig(linked(seed)), random.Random(seed)
    for name in NAMES:
        plan, gives, gets, cut, root = collective(name, one.network, chance)
        sizes = {**gets, **gives}
        host = {
            uri: np.resize(np.arange(at, at + 97, dtype=np.float32), n)
            for at, (uri, n) in enumerate(gives.items())
        }
        open_ = {device.uri: device for device in one.devices}
        given = {uri: open_[uri].array(x) for uri, x in host.items()}
        outs = {uri: open_[uri].array(np.full(n, -7, np.float32)) for uri, n in gets.items()}
        begin = one.machine.clock.now_s
        run_on_arrays(plan.program, given, one.ways, outs=outs, **one.clocked)
        took_s = one.machine.clock.now_s - begin
        assert took_s == pytest.approx(plan.predicted_s, rel=0.03, abs=1e-7), (name, str(plan))
        assert plan.bound_s <= plan.predicted_s * (1 + 1e-9), (name, str(plan))
        if name in ("all_reduce", "broadcast"):
            want = np.sum(list(host.values()), axis=0) if name == "all_reduce" else host[root]
            got = {uri: (array, want) for uri, array in given.items()}
        elif name in ("scatter", "reduce_scatter"):
            total = host[root] if name == "scatter" else np.sum(list(host.values()), axis=0)
            got = {uri: (array, total[slice(*cut[uri])]) for uri, array in outs.items()}
        else:
            total = np.concatenate([host[uri] for uri in one.network.places])
            got = {uri: (array, total) for uri, array in outs.items()}
        assert len(got) == len(gets or sizes)
        for array, want in got.values():
            np.testing.assert_array_equal(array.numpy(), want)


def test_a_mesh_measures_such_a_machine_and_predicts_well(rig):
    one = rig(full("abc", {"a": Port(send=0.5e9, receive=0.8e9)}, 20e-6))
    with Mesh(one.devices) as mesh:
        links = mesh.topology.links
        assert links[A, B].bw_gbs == pytest.approx(0.5, rel=0.03)
        assert links[B, C].bw_gbs == pytest.approx(1.0, rel=0.03)
        assert links[A, B].latency_us == pytest.approx(20, rel=0.1)
        assert links[A, B].kind == "peer"
        arrays = one.arrays(1 << 22)
        begin = one.machine.clock.now_s
        mesh.all_reduce(list(arrays.values()))
        assert one.machine.clock.now_s - begin == pytest.approx(mesh.plan.predicted_s, rel=0.03)
        assert (arrays[A].numpy() == 3).all()


def drawn(seed: int, places, lanes: int = 6, steps: int = 30) -> Program:
    """Copies and reductions in `lanes` lanes, that wait for random ones before them."""
    chance = random.Random(seed)
    pairs = chance.sample(list(permutations(places, 2)), lanes - 2)
    choice = [Lane(*pair) for pair in pairs] + [Lane(p) for p in places[:2]]
    made = []
    for number in range(steps):
        lane, nbytes = chance.choice(choice), 4 * chance.randint(1, 2000)
        src = Region(lane.source, "data", 0, nbytes)
        dst = Region(lane.to or lane.source, "temp", 0, nbytes)
        what = RegionCopy(src, dst) if lane.to else Reduce(src, dst)
        after = tuple(sorted(chance.sample(range(number), min(number, chance.randint(0, 2)))))
        made.append(Step(number, lane, what, after))
    return Program(tuple(made))


@pytest.mark.unmeasured
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_the_same_program_gives_the_same_trace_byte_for_byte(seed):
    traces = set()
    for _ in range(RUNS):
        with ExitStack() as stack:
            network = full("abcd", {p: Port(send=RATE, both=1.5 * RATE) for p in "abcd"}, 1e-5)
            adds = dict.fromkeys("abcd", Line(2e-6, 1e-9))
            noisy = Network(network.places, network.links, network.ports, adds)
            one = Rig(stack, noisy, seed, noise=0.1)
            ran = one.run(drawn(seed, one.network.places))
            traces.add(repr([(r.step.number, r.start_s.hex(), r.end_s.hex()) for r in ran]))
    assert len(traces) == 1


@pytest.mark.parametrize("within", [False, True])
def test_a_link_that_is_cut_is_left_for_the_host(rig, within):
    """Before the transfer or within it: then what had arrived is sent again."""
    one = rig(full("ab"))
    one.machine.links[A, B].faults = (LinkFault("cut", 2, within=within),)
    arrays = one.arrays(N, 7.0)
    copy = RegionCopy(Region(A, "data", 0, N), Region(B, "data", 0, N))
    for value in (1.0, 2.0):
        host = np.full(N // 4, value, np.float32)
        one.devices[0].default_queue.write(arrays[A].buffer, host).wait()
        one.run(Program((Step(0, Lane(A, B), copy),)), arrays)
        assert (arrays[B].numpy() == value).all()
    assert one.ways.moved() == {"peer": N, "staged": N}
    assert one.machine.links[A, B].happened["cut"] >= 1


def test_a_link_that_is_slow_or_corrupts(rig):
    one = rig(full("ab"))
    link = one.machine.links[A, B]
    link.faults = (LinkFault("slow", 1, factor=3.0), LinkFault("corrupt", 2))
    assert one.took_s((A, B), (B, A)) == pytest.approx([3 * ALONE, ALONE])
    arrays = one.arrays(N, 7.0)
    copy = RegionCopy(Region(A, "data", 0, N), Region(B, "data", 0, N))
    one.devices[1].default_queue.write(arrays[B].buffer, np.zeros(N, np.uint8)).wait()
    one.run(Program((Step(0, Lane(A, B), copy),)), arrays)
    assert np.count_nonzero(arrays[B].numpy() != 7.0) == 1
    assert link.happened == {"slow": 1, "corrupt": 1}


@pytest.mark.parametrize(
    "bad", [dict(what="gone"), dict(what="cut", at=0), dict(what="slow", factor=0.0)]
)
def test_a_fault_that_means_nothing_is_refused(bad):
    with pytest.raises(ValueError, match="expected"):
        LinkFault(**bad)


@pytest.mark.unmeasured
@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_under_faults_an_all_reduce_is_right_or_ends_in_a_typed_error(rig, seed):
    """A dword that a link corrupts is seen by nobody here: then the result may be wrong."""
    chance = random.Random(seed)
    one = rig(linked(seed, 5), seed)
    for link in one.machine.links.values():
        if chance.random() < 0.3:
            what = chance.choice(["cut", "slow", "corrupt"])
            at, within = chance.randint(1, 4), chance.random() < 0.5
            link.faults = (LinkFault(what, at, within=within),)
    if chance.random() < 0.4:
        what = chance.choice(["reset", "unplug", "hang", "slow"])
        fault = sp.testing.faults.Fault("job", chance.randint(1, 6), what)
        sim.apply(sp.testing.faults.Schedule(seed, [fault]), chance.choice(one.devices))
    plan = plan_all_reduce(one.network, 40_000, 4)
    arrays = one.arrays(40_000)
    said = ""
    try:
        one.run(plan.program, arrays)
    except SparkleError as error:
        said = str(error)
    if said:
        assert said.startswith("step ")
        return
    links = one.machine.links.values()
    if not any(link.happened["corrupt"] for link in links):
        for array in arrays.values():
            assert (array.numpy() == len(arrays)).all()


def test_a_wait_of_a_thread_that_is_no_lane_lets_time_pass():
    clock = Clock()
    ends = []

    def waits(seconds):
        ends.append(clock.advance(seconds))

    threads = [threading.Thread(target=waits, args=(s,)) for s in (3.0, 1.0, 2.0)]
    clock.enter()  # a lane runs: nobody's time passes
    for thread in threads:
        thread.start()
    while sum(clock._asleep.values()) < 3:
        pass
    assert clock.now_s == 0.0
    clock.leave()
    for thread in threads:
        thread.join(10)
    assert sorted(ends) == [1.0, 2.0, 3.0]
    assert clock.now_s == 3.0


def test_a_wait_that_nothing_ends_times_out(rig):
    one = rig(full("ab", rate=1.0))
    one.machine.links[A, B].per_s = 0.0  # nothing arrives
    slow = step(0, A, B, N)
    other = step(1, B, A, 4)
    hangs = Step(0, slow.lane, slow.what, (), 0.0, 0.3)
    with pytest.raises(sp.FenceTimeout, match=r"step 0, copy .* within 0\.3 s"):
        one.run(Program((hangs, other)))
    one.machine.links[A, B].per_s = RATE
    one.took_s((B, A))  # shares anew: the transfer ends, and nothing is left under way


def test_a_plan_of_a_refused_call_is_a_typed_error(rig):
    one = rig(full("ab"))
    one.machine.links[A, B].faults = (LinkFault("cut"),)
    x, y = one.arrays(64).values()
    with one.devices[1].queue() as queue, pytest.raises(DriverCallError, match="EIO"):
        queue.copy_peer(y.buffer, x.buffer)
