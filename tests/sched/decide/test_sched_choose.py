"""From costs and work to a plan: who wins, who cannot, and why the others lost.

When this fails, a Context picks a slower device, or cannot say why.
"""

import pytest

from sparkle_drv.mesh.links.line import Line
from sparkle_drv.sched.decide.choose import STALE, Impossible, choose
from sparkle_drv.sched.model.costs import Costs, DeviceCosts
from sparkle_drv.sched.model.work import HOST, Operand, Work

OP = "gemm_f32"


def two_devices():
    """cpu: 1 us and 1e11 a second. gpu: 20 us and 1e12, over 10 us and 1e10 bytes a second."""
    costs = Costs()
    costs.nodes = {
        "cpu": DeviceCosts(1 << 30, unified=True, shares=("cpu",)),
        "gpu:0": DeviceCosts(1 << 28),
    }
    costs.probed(OP, "cpu", [(n, 1e-6 + n * 1e-11) for n in (1e4, 1e7, 1e10)])
    costs.probed(OP, "gpu:0", [(n, 2e-5 + n * 1e-12) for n in (1e4, 1e7, 1e10)])
    costs.links[HOST, "gpu:0"] = costs.links["gpu:0", HOST] = Line(1e-5, 1e-10)
    return costs


DEVICES = ["cpu", "gpu:0"]


def gemm(size, nbytes=1 << 16, **other):
    return Work(OP, size, (Operand(nbytes), Operand(nbytes)), nbytes, HOST, **other)


def test_small_work_stays_and_large_work_goes():
    costs = two_devices()
    assert choose(costs, gemm(1e5), DEVICES).device == "cpu"
    assert choose(costs, gemm(1e9), DEVICES).device == "gpu:0"


def test_the_plan_tells_what_the_time_goes_to():
    plan = choose(two_devices(), gemm(1e9), DEVICES)
    cost = plan.candidates[0].cost
    assert cost.compute_s == pytest.approx(1.02e-3, rel=1e-3)
    assert cost.in_s == pytest.approx(2 * (1e-5 + 65536e-10), rel=1e-3)
    assert cost.out_s == pytest.approx(1e-5 + 65536e-10, rel=1e-3)
    assert plan.predicted_s == pytest.approx(cost.compute_s + cost.in_s + cost.out_s)
    assert plan.candidates[1].device == "cpu"
    assert "compute" in plan.candidates[1].why
    assert "x the time" in plan.candidates[1].why


def test_the_same_costs_give_the_same_plan():
    assert choose(two_devices(), gemm(1e7), DEVICES) == choose(two_devices(), gemm(1e7), DEVICES)


def test_what_is_there_already_is_not_moved():
    costs = two_devices()
    there = Work(OP, 1e7, (Operand(1 << 26, frozenset({"gpu:0"})),) * 2, 1 << 26, "")
    plan = choose(costs, there, DEVICES)
    assert plan.device == "gpu:0"
    assert plan.candidates[0].cost.in_s == 0
    here = Work(OP, 1e7, (Operand(1 << 26),) * 2, 1 << 26, "")
    assert choose(costs, here, DEVICES).device == "cpu"


def test_between_two_devices_the_way_is_over_the_host_unless_there_is_a_link():
    costs = two_devices()
    costs.nodes["gpu:1"] = DeviceCosts(1 << 28)
    costs.links[HOST, "gpu:1"] = costs.links["gpu:1", HOST] = Line(1e-5, 2e-10)
    places = frozenset({"gpu:0"})
    assert costs.transfer_s(1 << 20, places, "gpu:1") == pytest.approx(2e-5 + (1 << 20) * 3e-10)
    costs.links["gpu:0", "gpu:1"] = Line(1e-6, 1e-11)
    assert costs.transfer_s(1 << 20, places, "gpu:1") == pytest.approx(1e-6 + (1 << 20) * 1e-11)


def test_a_busy_device_loses_to_an_idle_one():
    costs = two_devices()
    costs.nodes["gpu:0"].queued_s = 1.0
    plan = choose(costs, gemm(1e9), DEVICES)
    assert plan.device == "cpu"
    assert "queue" in plan.candidates[1].why


def test_devices_that_share_wait_for_one_another():
    costs = two_devices()
    costs.nodes["egl:0"] = DeviceCosts(0, unified=False, shares=("cpu",), queued_s=0.5)
    assert costs.wait_s("cpu") == 0.5
    assert costs.wait_s("gpu:0") == 0


def test_a_device_that_fails_must_be_much_faster():
    costs = two_devices()
    for _ in range(40):
        costs.failed("gpu:0")
    assert choose(costs, gemm(1e9), DEVICES).device == "gpu:0"
    plan = choose(costs, gemm(3e7), DEVICES)  # three times as fast, but not worth the risk
    assert plan.device == "cpu"
    assert "risk" in plan.candidates[1].why


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda c: setattr(c.nodes["gpu:0"], "lost", "it was reset"), "it is lost: it was reset"),
        (lambda c: c.speeds.pop((OP, "gpu:0")), "it has no gemm_f32"),
        (lambda c: c.nodes.pop("gpu:0"), "nothing is known about it"),
        (lambda c: setattr(c.nodes["gpu:0"], "memory_nbytes", 100), "it has 100"),
    ],
)
def test_who_cannot_is_told_with_the_reason(change, why):
    costs = two_devices()
    change(costs)
    plan = choose(costs, gemm(1e9), DEVICES)
    assert plan.device == "cpu"
    assert plan.candidates[1].cost is None
    assert why in plan.candidates[1].why


def test_nobody_can():
    costs = two_devices()
    for node in costs.nodes.values():
        node.memory_nbytes = 1000
    with pytest.raises(Impossible, match=r"cpu: 196608 bytes are needed, it has 1000; gpu:0"):
        choose(costs, gemm(1e9), DEVICES)
    with pytest.raises(Impossible, match="no device was given"):
        choose(costs, gemm(1e9), [])


def test_an_unknown_way_is_no_way():
    costs = two_devices()
    costs.links.clear()
    plan = choose(costs, gemm(1e9), DEVICES)
    assert plan.device == "cpu"
    assert "no way" in plan.candidates[1].why


def test_a_device_left_alone_for_long_is_tried_when_that_costs_little():
    costs = two_devices()
    work = gemm(1e9)
    explored = 0
    for _ in range(20 * STALE):
        plan = choose(costs, work, DEVICES)
        if plan.explores:
            explored += 1
            costs.explored(plan.extra_s)
            assert plan.device == "cpu"
            assert "tried again" in plan.candidates[1].why
        costs.ran(OP, plan.device, work.size, plan.candidates[0].cost.compute_s)
    assert explored == 0  # ten times slower: a thousandth of the time does not pay for it so soon
    costs.spare_s = 1.0
    assert choose(costs, work, DEVICES).explores
