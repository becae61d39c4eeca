"""From the costs of single operations to the placement of a graph.

When this fails, a graph is placed by wrong costs.
"""

import random

import pytest

from sparkle_drv.sched.decide.choose import STALE, Impossible
from sparkle_drv.sched.decide.place_graph import SLICE_S, candidates, changed, placed
from sparkle_drv.sched.journal.journal import Journal, replay
from sparkle_drv.sched.model.costs import Costs, DeviceCosts
from sparkle_drv.sched.model.graph_plan import TaskPlan
from sparkle_drv.sched.model.work import HOST, Operand, Work
from sparkle_drv.sched.operations.traffic import Traffic

URIS = ("cpu", "egl:0", "gpu:0")


def costs(shares=("cpu",), speeds=(1e-9, 4e-9, 1e-10)):
    made = Costs(
        nodes={
            "cpu": DeviceCosts(0, unified=True, shares=shares),
            "egl:0": DeviceCosts(0, shares=shares),
            "gpu:0": DeviceCosts(1 << 20),
        }
    )
    for uri, each in zip(URIS, speeds, strict=True):
        made.probed("f", uri, [(n, 1e-6 + n * each) for n in (1e3, 1e5, 1e7)])
    for uri in URIS[1:]:
        for way in ((HOST, uri), (uri, HOST)):
            made.linked(*way, [(n, 1e-5 + n * 1e-9) for n in (1e3, 1e6)])
    return made


def chain(count, size=1e5, nbytes=1000):
    first = Work("f", size, (Operand(nbytes),), nbytes)
    works = [first, *[Work("f", size, (), nbytes)] * (count - 1)]
    return works, [[], *([i] for i in range(count - 1))]


def test_devices_that_share_cores_are_one_lane():
    works, reads = chain(3)
    assert placed(costs(), works, reads, URIS, {}).problem.lanes == (0, 0, 1)
    assert placed(costs(shares=()), works, reads, URIS, {}).problem.lanes == (0, 1, 2)


def test_moves_go_over_the_host_and_operands_from_outside_count():
    works, reads = chain(2)
    problem = placed(costs(), works, reads, URIS, {}).problem
    assert problem.move(0, 0, 2) == pytest.approx(1e-5 + 1e-6, rel=0.01)
    assert problem.move(0, 1, 2) == pytest.approx(2 * (1e-5 + 1e-6), rel=0.01)
    assert problem.seconds[0][2] - problem.seconds[1][2] == pytest.approx(1.1e-5, rel=0.01)
    assert problem.seconds[0][0] == problem.seconds[1][0]


def test_a_move_between_cores_of_one_host_waits_for_a_time_slice():
    works, reads = chain(2)
    known = costs(shares=())
    known.nodes["cpu"].shares, known.nodes["egl:0"].shares = ("cpu:0",), ("cpu:1", "memory")
    problem = placed(known, works, reads, URIS, {}).problem
    assert problem.lanes == (0, 1, 2)
    assert problem.move(0, 0, 1) == pytest.approx(SLICE_S + 1e-5 + 1e-6, rel=0.01)
    assert problem.move(0, 0, 2) == pytest.approx(1e-5 + 1e-6, rel=0.01)


@pytest.mark.parametrize("seed", range(10))
def test_never_worse_than_the_best_device_alone(seed):
    chance = random.Random(seed)
    known = costs(speeds=[10 ** chance.uniform(-10, -8) for _ in URIS])
    works, reads = [], []
    for i in range(chance.choice([4, 8, 12])):
        reads.append(sorted(chance.sample(range(i), min(i, chance.choice([0, 1, 2])))))
        works.append(Work("f", 10 ** chance.uniform(3, 6), (Operand(100),), 10000))
    found = placed(known, works, reads, URIS, {})
    best, *alone = found.schedules
    assert len(alone) == 3
    assert [s.seconds for s in alone] == sorted(s.seconds for s in alone)
    assert best.seconds <= alone[0].seconds


def test_who_cannot_is_told_with_the_reason():
    works, reads = chain(2, nbytes=1 << 20)
    found = placed(costs(), works, reads, URIS, {(1, "egl:0"): "it does not want to"})
    assert found.refused[1] == {"egl:0": "it does not want to"}
    assert "2097152 bytes are needed" in found.refused[0]["gpu:0"]
    assert [c.device for c in candidates(found, 0, "cpu")] == ["cpu", "egl:0", "gpu:0"]
    known = costs()
    for node in known.nodes.values():
        node.lost = "reset"
    with pytest.raises(
        Impossible, match="f: no device can do the work: cpu: it is lost: reset; egl:0"
    ):
        placed(known, works, reads, URIS, {})


def test_a_device_without_a_way_to_the_rest_is_not_mixed_with_it():
    known = costs(shares=())
    del known.links[HOST, "gpu:0"]
    works = [Work("f", 1e5, (), 1000), Work("g", 1e5, (), 1000)]
    for uri in ("cpu", "gpu:0"):
        known.probed("g", uri, [(n, n * (1e-12 if uri == "gpu:0" else 1e-8)) for n in (1e3, 1e6)])
    found = placed(known, works, [[], [0]], ("cpu", "gpu:0"), {})
    assert set(found.schedules[0].device_of().values()) in ({0}, {1})
    only = placed(known, works, [[], [0]], ("cpu", "gpu:0"), {(1, "cpu"): "no"})
    assert only.schedules[0].device_of() == {0: 1, 1: 1}
    refused = {(0, "gpu:0"): "no", (1, "cpu"): "no"}
    with pytest.raises(
        Impossible, match="expected a device that can do all tasks, or links among cpu, gpu:0"
    ):
        placed(known, works, [[], [0]], ("cpu", "gpu:0"), refused)


def test_a_task_may_be_slower_alone_and_better_for_the_graph():
    known = costs(speeds=(1e-9, 1e-9, 0.9e-9))
    works, reads = chain(2, size=1e4)
    found = placed(known, works, reads, URIS, {})
    (device,) = set(found.schedules[0].device_of().values())
    assert URIS[device] == "cpu"
    why = {c.device: c.why for c in candidates(found, 1, "cpu")}
    assert why["gpu:0"] == "faster for this task alone, not for the graph"
    assert "x the time" in {c.device: c.why for c in candidates(found, 0, "cpu")}["gpu:0"]


def plan(known):
    works, reads = chain(1)
    found = placed(known, works, reads, URIS, {})
    return [TaskPlan(("f",), works[0], "cpu", 0.0, 1.0, Traffic(1, 1), candidates(found, 0, "cpu"))]


def test_what_has_changed_since_is_seen():
    known = costs()
    made = plan(known)
    assert not changed(known, made)
    known.speeds["f", "egl:0"].pace += 0.1
    assert not changed(known, made)
    known.speeds["f", "egl:0"].pace += 0.2
    assert changed(known, made)
    made = plan(known)
    known.nodes["gpu:0"].lost = "reset"
    assert changed(known, made)
    made = plan(known)
    assert not changed(known, made)
    known.nodes["gpu:0"].lost = ""
    assert changed(known, made)


def idle(known, runs=STALE):
    """All the time was spent on the gpu."""
    for _ in range(runs):
        known.ran("f", "gpu:0", 1e5, known.speeds["f", "gpu:0"].at(1e5))


def test_a_device_left_alone_for_long_is_tried_when_that_costs_little():
    works, reads = chain(3)
    known = costs(shares=())
    usual = placed(known, works, reads, URIS, {})
    assert set(usual.schedules[0].device_of().values()) == {2}
    known.spare_s = 1.0
    assert placed(known, works, reads, URIS, {}).look is None  # none is idle for long
    idle(known)
    known.spare_s = 1.0
    found = placed(known, works, reads, URIS, {})
    assert found.schedules == usual.schedules
    where = found.look.device_of()
    assert sorted(where.values()) == [0, 2, 2]
    assert found.order == (found.look, *found.schedules)
    (tried,) = (task for task, device in where.items() if device == 0)
    why = {c.device: c.why for c in candidates(found, tried, "cpu", looks=True)}
    assert "tried again" in why["gpu:0"]
    assert (
        "not for the graph" in {c.device: c.why for c in candidates(found, tried, "cpu")}["gpu:0"]
    )
    known.ran("f", "cpu", 1e5, 1e-4)
    known.spare_s = 1.0
    other = placed(known, works, reads, URIS, {}).look
    assert sorted(other.device_of().values()) == [1, 2, 2]  # the one that is idle now
    extra = found.look.seconds - found.schedules[0].seconds
    idle(known, 2 * STALE)
    for spare, looks in ((extra * 0.9, False), (extra * 1.1, True)):
        known.spare_s = spare
        assert (placed(known, works, reads, URIS[::2], {}).look is not None) == looks


def test_of_one_class_the_task_is_tried_that_loses_least():
    known = costs(shares=())
    works = [Work("f", size, (Operand(0),), 0) for size in (3e6, 1e3, 1e6)]
    idle(known)
    known.spare_s = 1.0
    found = placed(known, works, [[], [], []], ("cpu", "gpu:0"), {})
    usual = found.schedules[0].device_of()
    moved = [t for t, d in found.look.device_of().items() if d != usual[t]]
    assert len(moved) == 1
    others = [t for t in range(3) if usual[t] == usual[moved[0]]]
    assert works[moved[0]].size == min(works[t].size for t in others)


def test_what_a_graph_has_explored_replays():
    works, reads = chain(4)
    known = costs(shares=())
    idle(known)
    known.spare_s = 1.0
    notes = Journal(known)
    found = placed(known, works, reads, URIS, {})
    notes.placed(works, reads, URIS, {}, 0, found.look)
    notes.record_call("explored", 1.0)
    known.explored(1.0)
    again = placed(known, works, reads, URIS, {})
    notes.placed(works, reads, URIS, {}, 0, again.schedules[0])
    assert again.look is None
    both = list(replay(notes.lines))
    assert len(both) == 2
    assert all(stands == now for stands, now in both)
    assert both[0][0] != both[1][0]
