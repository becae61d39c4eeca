"""The conformance suite while things go wrong by plan: right, or a typed error, or noticed."""

import threading
from collections import Counter

import numpy as np
import pytest
from census import census, none_left

import sparkle_drv as sp
from sparkle_drv.testing import fault_suite, suite
from sparkle_drv.testing.checks import base
from sparkle_drv.testing.emulated_faults import apply
from sparkle_drv.testing.emulator import Machine
from sparkle_drv.testing.fault_suite import NOTICED, REFUSED, RIGHT, WRONG
from sparkle_drv.testing.faults import KINDS, Fault, Schedule

CHIPS = ["gfx1100", "gfx1036"]
SCHEDULES = 300
PARTS = 10

total: Counter[str] = Counter()


def check_of(function):
    return base.Check("planted", "kernels", function)


@pytest.mark.parametrize("part", range(PARTS))
def test_schedules(part):
    """Seeds of one part; `make fuzz-faults` runs as many more as one likes."""
    for seed in range(part, SCHEDULES, PARTS):
        report = fault_suite.run(Schedule(seed), CHIPS[seed // PARTS % 2])
        assert not report.wrong, report
        total.update(report.happened)


def test_every_kind_has_happened():
    """Else the schedules above prove nothing; they run before, in this file's order."""
    if sum(total.values()):
        assert set(KINDS) <= {kind for kind, n in total.items() if n}


def test_a_schedule_is_replayed_exactly():
    plan = Schedule.parse(str(Schedule(17)))
    names = ["kernels: vecadd_f32", "lists: copies may overlap", "lists: a list runs in order"]
    chosen = [check for check in suite.checks() if check.name in names]
    first, second = (fault_suite.run(plan, "gfx1100", chosen) for _ in range(2))
    assert [(o.check, o.status) for o in first.outcomes] == [
        (o.check, o.status) for o in second.outcomes
    ]
    assert first.happened == second.happened
    assert any(first.happened.values())


def wrong_and_silent(dev):
    """A check that a corrupted result does not make fail."""
    with dev.kernel("fill_f32") as k, dev.buffer(400) as y:
        dev.default_queue.launch(k, y, 2.0, 100, groups=1).wait()


def compared(dev):
    with dev.kernel("fill_f32") as k, dev.buffer(400) as y:
        dev.default_queue.launch(k, y, 2.0, 100, groups=1).wait()
        assert (y.read(np.float32, 100) == 2.0).all()


def never_right(dev):
    assert dev is None, "the device said so"


def untyped(dev):
    raise OSError("no type of ours")


def leaking(dev):
    """Leaves memory that no device owns any more."""
    from sparkle_drv._native import ffi, lib

    out = ffi.new("struct sp_amdgpu_memory **")
    assert lib.sp_amdgpu_alloc(dev._backend._raw, 4096, lib.SP_AMDGPU_DEVICE, out) == 0


CORRUPT = Schedule(1, [Fault("job", 1, "corrupt")])
NONE = Schedule(1, [])


@pytest.mark.parametrize(
    ("plan", "function", "status"),
    [
        (NONE, compared, RIGHT),
        (CORRUPT, compared, NOTICED),
        (CORRUPT, wrong_and_silent, WRONG),
        (NONE, never_right, WRONG),
        (NONE, untyped, WRONG),
        (Schedule(1, [Fault("job", 1, "hang")]), compared, REFUSED),
        (Schedule(1, [Fault("any", 1, "unplug")]), compared, REFUSED),
        (Schedule(1, [Fault("submit", 1, "fail", error="EIO")]), compared, REFUSED),
    ],
)
def test_the_judge_can_fail(plan, function, status):
    report = fault_suite.run(plan, "gfx1036", [check_of(function)])
    assert [o.status for o in report.outcomes] == [status], report
    assert bool(report.wrong) == (status == WRONG)
    assert status in str(report)


def test_what_is_left_alive_is_told():
    report = fault_suite.run(NONE, "gfx1036", [check_of(leaking)])
    assert report.left["allocations"] == 1
    assert report.wrong


def test_a_check_that_never_ends_is_told(monkeypatch):
    ended, real = threading.Event(), Machine.unplug

    def unplug(machine):
        real(machine)
        ended.set()  # the judge has seen enough

    monkeypatch.setattr(Machine, "unplug", unplug)
    monkeypatch.setattr(fault_suite, "BOUND_S", 0.3)
    report = fault_suite.run(NONE, "gfx1036", [check_of(lambda dev: ended.wait(60) and None)])
    assert "ended.wait" in report.stuck
    assert any("not done" in line for line in report.wrong)


def test_corruption_is_always_noticed_by_the_checks_of_kernels():
    """The control: every kernel that writes something, on a card that corrupts its n-th job."""
    chosen = [c for c in suite.checks(["kernels"]) if c.name not in fault_suite.SLOW]
    noticed = 0
    for n, check in enumerate(chosen):
        plan = Schedule(n, [Fault("job", 1 + n % 3, "corrupt", seed=n)])
        report = fault_suite.run(plan, CHIPS[n % 2], [check])
        assert not report.wrong, report
        noticed += report.happened["corrupt"]
    assert noticed > len(chosen) // 2


def test_no_threads_and_no_descriptors_are_left():
    fault_suite.run(Schedule(3), "gfx1100")
    before = census()
    for seed in range(3, 9):
        fault_suite.run(Schedule(seed), "gfx1100")
    assert none_left(before)


def test_a_slow_card_is_slow_and_right():
    with Machine(["gfx1036"]) as machine, sp.testing.emu.on(machine), sp.open("emu:gfx1036") as dev:
        apply(Schedule(0, [Fault("job", 1, "slow", factor=50, count=1000)]), machine)
        compared(dev)
