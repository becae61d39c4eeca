"""The work that devices have in hand: finished work is forgotten, and dependencies are known.

When this fails, a Context sends work to a busy device.
"""

import math
import threading
from types import SimpleNamespace

import pytest

from sparkle_drv.sched.decide.choose import choose, slack_s
from sparkle_drv.sched.model.costs import Costs, DeviceCosts
from sparkle_drv.sched.model.load import Load
from sparkle_drv.sched.model.work import Work

DEVICES = ("cpu", "egl:0", "gpu:0")


def device(uri):
    return SimpleNamespace(uri=uri, default_queue=SimpleNamespace(submitted=0, reached=0))


def test_what_has_ended_is_no_load():
    a, b = device("a"), device("b")
    load = Load([a, b])
    assert load.queued_s(a) == 0.0
    for seconds in (1.0, 0.1, 0.2):
        a.default_queue.submitted += 2  # somebody else submits, too
        load.gave(a, seconds)
    assert load.queued_s(a) == pytest.approx(1.3)
    assert load.queued_s(b) == 0.0
    a.default_queue.reached = 3
    assert load.queued_s(a) == pytest.approx(0.3)
    a.default_queue.reached = 6
    assert load.queued_s(a) == 0.0


def test_a_handler_of_a_signal_gives_it_something_to_do():
    a = device("a")
    load = Load([a])

    class Interrupted(int):
        def __ge__(self, other):
            a.default_queue.submitted = 2
            load.gave(a, 0.5)
            return int(self) >= other

    a.default_queue.submitted, a.default_queue.reached = 1, Interrupted(1)
    load.gave(a, 1.0)
    found = []
    asks = threading.Thread(target=lambda: found.append(load.queued_s(a)), daemon=True)
    asks.start()
    asks.join(20)
    assert found == [pytest.approx(0.5 + 0.5)]  # it came twice


def three():
    costs = Costs()
    for uri, per_s, shares in (
        ("cpu", 1e-9, ("cores",)), ("egl:0", 2e-9, ("cores",)), ("gpu:0", 4e-9, ())
    ):  # fmt: skip
        costs.nodes[uri] = DeviceCosts(0, unified=True, shares=shares)
        costs.probed("gemm_f32", uri, [(n, n * per_s) for n in (1e3, 1e6, 1e9)])
    return costs


def test_slack_is_towards_those_that_do_not_wait_for_the_same():
    costs, work = three(), Work("gemm_f32", 1e9)
    assert costs.waits_for("cpu") == ["cpu", "egl:0"]
    plan = choose(costs, work, DEVICES)
    assert plan.device == "cpu"
    assert slack_s(costs, plan) == pytest.approx(3.0, rel=1e-3)
    assert slack_s(costs, choose(costs, work, DEVICES[:2])) == math.inf
    costs.nodes["gpu:0"].lost = "gone"
    assert slack_s(costs, choose(costs, work, DEVICES)) == math.inf


@pytest.mark.parametrize(("queued", "chosen"), [(2.9, "cpu"), (3.1, "gpu:0")])
def test_beyond_the_slack_another_device_is_faster(queued, chosen):
    costs = three()
    costs.queued("egl:0", queued)  # whose work the cpu waits for
    assert choose(costs, Work("gemm_f32", 1e9), DEVICES).device == chosen
