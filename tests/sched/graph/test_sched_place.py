"""Placement of task graphs: eight small ones, judged by every schedule there is. Large ones are
near the lower bound, and never worse than one device alone.

When this fails, a graph runs slower on two devices than on one.
"""

import itertools
import random
from statistics import mean

import pytest

from sparkle_drv.sched.decide import local_search, place_graph
from sparkle_drv.sched.decide import schedule as place
from sparkle_drv.sched.decide.dag import Problem, TaskSchedule, bound, relaxed_bound, timed
from sparkle_drv.sched.model.costs import Costs, DeviceCosts
from sparkle_drv.sched.model.work import Work


def graph(tasks, devices, seed, moving=0.3, shared=False):
    """Random work on unequal devices; each task reads up to three of those shortly before it."""
    chance = random.Random(seed)
    speeds = [10 ** chance.uniform(0, 1) for _ in range(devices)]
    seconds, reads, moves = [], [], {}
    for task in range(tasks):
        work = 10 ** chance.uniform(-1, 1)
        seconds.append(tuple(work / speed * chance.uniform(0.7, 1.4) for speed in speeds))
        first = max(0, task - max(4, 2 * int(tasks**0.5)))
        count = chance.choice((0, 1, 1, 2, 2, 3)) if task else 0
        reads.append(tuple(sorted({chance.randrange(first, task) for _ in range(count)})))
        cost = moving * min(seconds[-1]) * 10 ** chance.uniform(-0.5, 0.5)
        moves.update({(task, a, b): cost for a, b in itertools.permutations(range(devices), 2)})
    lanes = (0, 0, *range(1, devices - 1)) if shared else tuple(range(devices))
    return Problem(tuple(seconds), tuple(reads), moves, lanes)


def check(problem, schedule):
    """Each task once, after what it reads has come, and no lane busy with two."""
    slots = {slot.task: slot for slot in schedule.slots}
    assert sorted(slots) == list(range(len(problem.reads)))
    for slot in schedule.slots:
        assert slot.end == pytest.approx(slot.start + problem.seconds[slot.task][slot.device])
        for source in problem.reads[slot.task]:
            came = slots[source].end + problem.move(source, slots[source].device, slot.device)
            assert slot.start >= came - 1e-12
    by_lane = {}
    for slot in schedule.slots:
        by_lane.setdefault(problem.lanes[slot.device], []).append(slot)
    for lane in by_lane.values():
        for one, other in itertools.pairwise(sorted(lane, key=lambda slot: slot.start)):
            assert other.start >= one.end - 1e-12
    assert schedule.seconds >= bound(problem) * (1 - 1e-9)


def best_of_all(problem):
    """The least time of every order and every choice of devices."""
    tasks = range(len(problem.reads))
    orders = [
        order
        for order in itertools.permutations(tasks)
        if all(order.index(s) < order.index(t) for t in tasks for s in problem.reads[t])
    ]
    choices = itertools.product(problem.devices, repeat=len(problem.reads))
    return min(timed(problem, o, c).seconds for c in choices for o in orders)


@pytest.mark.unmeasured
@pytest.mark.parametrize("seed", range(8))
def test_small_graphs_are_placed_exactly(seed):
    problem = graph(5, 2 + seed % 2, seed, shared=seed % 4 == 3)
    found = place.place(problem)
    check(problem, found)
    assert found.seconds == pytest.approx(best_of_all(problem))


@pytest.mark.parametrize("seed", range(6))
def test_eight_tasks_are_no_worse_than_any_heuristic(seed):
    problem = graph(8, 4, seed)
    found = place.place(problem)
    check(problem, found)
    others = [place.heft(problem), place.earliest_finish(problem), *place.single(problem)]
    assert found.seconds <= min(other.seconds for other in others) * (1 + 1e-9)


@pytest.mark.unmeasured
def test_large_graphs_come_near_the_bound():
    ratios = []
    for tasks in (50, 100, 200):
        for seed in range(3):
            problem = graph(tasks, 3 + seed % 2, 100 + seed)
            found = place.place(problem)
            check(problem, found)
            alone = min(schedule.seconds for schedule in place.single(problem))
            assert found.seconds <= alone * (1 + 1e-9)
            ratios.append(found.seconds / bound(problem))
    assert mean(ratios) <= 1.10


DECIDED = [
    ((8, 4, 3, False), "HEFT, improved", 7.554437427193319, "33332133"),
    ((12, 3, 1, True), "HEFT, improved", 2.4852001464444458, "212112211221"),
    ((30, 2, 5, False), "HEFT at prices, improved", 5.5305634968239215,
     "111001110100101100100000011001"),
    ((60, 4, 9, True), "HEFT at prices, improved", 12.912038231844592,
     "333332023323303300330031203002333003303333321233302323110201"),
    ((100, 3, 100, False), "HEFT at prices, improved", 21.075770630222802,
     "1122112222022000100002100202112121000121100002122121212102120011021212122122220000202021022222"
     "122220"),
    ((100, 4, 101, False), "HEFT at prices, improved", 10.03226045932649,
     "2203203223232233300313310022230302201033112303232322021030032332333031203030100010221033013302"
     "330222"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "by", "seconds", "devices"), DECIDED)
def test_decisions_are_those_of_the_plain_computation(what, by, seconds, devices):
    """As recorded when every change was timed from the first task to the last."""
    tasks, count, seed, shared = what
    found = place.place(graph(tasks, count, seed, shared=shared))
    assert found.by == by
    assert found.seconds == pytest.approx(seconds, rel=1e-12)
    where = found.device_of()
    assert "".join(str(where[task]) for task in range(tasks)) == devices


@pytest.mark.unmeasured
@pytest.mark.parametrize("seed", range(6))
def test_a_change_helps_when_the_whole_schedule_is_shorter(seed):
    problem = graph(24, 2 + seed % 3, seed, shared=seed % 2 == 1)
    helpful = others = 0
    for schedule in (place.earliest_finish(problem), place.heft(problem), *place.single(problem)):
        trial = local_search._Trial(problem, schedule)
        for change in local_search._changes(problem, schedule):
            whole = timed(problem, change.order, change.device).seconds
            assert trial.helps(change) == (whole < schedule.seconds * local_search.HELPS)
            helpful += trial.helps(change)
            others += not trial.helps(change)
    assert helpful
    assert others


@pytest.mark.parametrize("method", [place.heft, place.earliest_finish])
def test_every_method_makes_schedules_that_can_be_kept(method):
    for seed in range(5):
        problem = graph(20, 3, seed, shared=bool(seed % 2))
        check(problem, method(problem))


def test_devices_of_one_lane_gain_nothing_from_each_other():
    rows = ((1.0, 1.0),) * 4
    apart = Problem(rows, ((),) * 4, {}, (0, 1))
    together = Problem(rows, ((),) * 4, {}, (0, 0))
    assert place.place(apart).seconds == pytest.approx(2.0)
    assert place.place(together).seconds == pytest.approx(4.0)


def test_a_dear_move_keeps_a_chain_together():
    rows = ((1.0, 1.1), (1.1, 1.0), (1.0, 1.1))
    moves = {(t, a, b): 5.0 for t in range(3) for a, b in ((0, 1), (1, 0))}
    found = place.place(Problem(rows, ((), (0,), (1,)), moves, (0, 1)))
    assert len(set(found.device_of().values())) == 1
    assert found.seconds == pytest.approx(3.1)


def test_work_that_only_one_device_can_do_goes_there():
    inf = float("inf")
    problem = Problem(((1.0, 0.1), (inf, 2.0), (1.0, inf)), ((), (0,), (1,)), {}, (0, 1))
    found = place.place(problem)
    check(problem, found)
    assert found.device_of()[1] == 1
    assert found.device_of()[2] == 0
    assert place.single(problem) == []


def test_the_bound_is_that_of_the_linear_program():
    """Two lanes, two kinds of work, each three times as fast on one of them: half each."""
    rows = ((1.0, 3.0),) * 10 + ((3.0, 1.0),) * 10
    seconds, prices = relaxed_bound(Problem(rows, ((),) * 20, {}, (0, 1)))
    assert seconds == pytest.approx(10.0, rel=0.02)
    assert prices[0] == pytest.approx(prices[1], rel=0.1)


def test_nothing_to_place():
    empty = Problem((), (), {}, (0,))
    assert place.place(empty) == TaskSchedule((), "empty")
    assert bound(empty) == 0


@pytest.mark.parametrize(
    ("seconds", "reads", "what"),
    [
        (((1.0,), (1.0,)), ((1,), ()), "expected to read earlier tasks"),
        (((1.0,),), ((0,),), "expected to read earlier tasks"),
        (((float("inf"),),), ((),), "that no device can do"),
    ],
)
def test_a_graph_that_makes_no_sense(seconds, reads, what):
    with pytest.raises(ValueError, match=what):
        Problem(seconds, reads, {}, (0,))


@pytest.mark.parametrize(("slower", "whole"), [(1.5, True), (20.0, False)])
def test_branches_stay_whole_where_moves_win_little(slower, whole):
    """Two chains of a product and a map, three times over; the map is slower on one device."""
    costs = Costs()
    for uri, seconds in (("sim:a", 0.1), ("sim:b", 0.1 * slower)):
        costs.nodes[uri] = DeviceCosts(0, unified=True)
        costs.probed("product", uri, [(1.0, 1.0), (10.0, 10.0)])
        costs.probed("map", uri, [(1.0, seconds), (10.0, 10 * seconds)])
    for pair in itertools.permutations(costs.nodes, 2):
        costs.linked(*pair, [(1.0, 1e-4), (1e6, 1.01e-4)])
    works = [Work(op, 1.0, (), 4) for op in ("product", "map") * 3 for _ in range(2)]
    reads = [[], [], *([task] for task in range(len(works) - 2))]
    best = place_graph.placed(costs, works, reads, tuple(costs.nodes), {}).schedules[0]
    device = best.device_of()
    branches = [{device[task] for task in range(first, len(works), 2)} for first in range(2)]
    assert all(len(one) == 1 for one in branches) == whole
    if whole:
        assert branches[0] != branches[1]
