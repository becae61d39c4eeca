"""The journal of what a scheduler was told and decided, and its replay.

When this fails, a trace replays to another decision than the one that was made.
"""

import json
import random

import pytest

from sparkle_drv.sched.decide.choose import choose
from sparkle_drv.sched.journal import journal
from sparkle_drv.sched.journal.journal import Journal, replay, tell
from sparkle_drv.sched.model.costs import Costs, DeviceCosts
from sparkle_drv.sched.model.work import HOST, Operand, Work

OP = "gemm_f32"
DEVICES = ("cpu", "gpu:0")


def written():
    """A few hundred calls, with failures, a slow-down and exploring."""
    costs = Costs(
        nodes={"cpu": DeviceCosts(0, unified=True, lacks={"conv"}), "gpu:0": DeviceCosts(0)}
    )
    tell(costs, "probed", [OP, "cpu", [(n, 1e-6 + n * 1e-11) for n in (1e4, 1e7, 1e10)]])
    tell(costs, "linked", [HOST, "gpu:0", [(1e3, 1e-5), (1e6, 1e-4)]])
    made = Journal(costs)
    chance = random.Random(3)

    def told(call, *args):
        tell(costs, call, args)
        made.record_call(call, *args)

    told(
        "probed",
        OP,
        "gpu:0",
        [(n, 2e-5 + n * (1 + 9 * (n < 1e6)) * 1e-12) for n in (1e4, 1e7, 1e10)],
    )
    told("linked", "gpu:0", HOST, [(1e3, 1e-5), (1e6, 1e-4)])
    costs.spare_s = 0.0
    for i in range(300):
        size = 10 ** chance.uniform(4, 10)
        work = Work(OP, size, (Operand(1 << 12),), 1 << 12, HOST)
        plan = choose(costs, work, DEVICES)
        made.decided(work, DEVICES, plan)
        if plan.explores:
            told("explored", plan.extra_s)
        slow = 3.0 if i > 150 else 1.0
        told("ran", OP, plan.device, size, slow * plan.predicted_s * chance.uniform(0.9, 1.1))
        if i == 200:
            told("failed", "gpu:0")
    told("lost", "gpu:0", "reset")
    plan = choose(costs, work, DEVICES)
    made.decided(work, DEVICES, plan)
    return made, costs


def test_a_replay_decides_the_same_byte_for_byte():
    made, _ = written()
    again = list(replay(made.lines))
    assert len(again) == 301
    assert all(stands == now for stands, now in again)
    assert {json.loads(now)["candidates"][0]["device"] for _, now in again} == set(DEVICES)


def test_a_journal_may_begin_in_the_middle():
    _, costs = written()
    later = Journal(costs)
    work = Work(OP, 1e9, (Operand(5),), 5, HOST)
    later.decided(work, DEVICES, choose(costs, work, DEVICES))
    ((stands, now),) = replay(later.lines)
    assert stands == now


def test_what_if_a_device_were_not_there():
    made, _ = written()

    def without(costs):
        costs.nodes["gpu:0"].lost = "what if"

    again = list(replay(made.lines, without))
    assert any(stands != now for stands, now in again)
    assert {json.loads(now)["candidates"][0]["device"] for _, now in again} == {"cpu"}


def test_what_if_nobody_were_there():
    made, _ = written()

    def without(costs):
        for node in costs.nodes.values():
            node.lost = "what if"

    (_, now), *_ = replay(made.lines, without)
    assert "no device can do the work" in json.loads(now)["impossible"]


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (["{"], "line 1: JSONDecodeError"),
        (["{}"], "line 1: KeyError"),
        (['{"journal": 99}'], "expected version 7, got 99"),
        (["5"], "line 1: TypeError"),
        ([None, '{"told": {"call": "nodes", "args": []}}'], "expected one of .* got 'nodes'"),
        ([None, '{"told": {"call": "ran", "args": [1]}}'], "line 2: TypeError"),
        ([None, '{"something": 1}'], "line 2: KeyError"),
    ],
)
def test_what_is_no_journal(lines, what):
    first = Journal(Costs()).lines[0]
    with pytest.raises(ValueError, match=what):
        list(replay([first if line is None else line for line in lines]))


def test_only_plain_data_is_written():
    with pytest.raises(TypeError, match="journal: expected JSON data, a set or deque, got object"):
        journal._line({"x": object()})
