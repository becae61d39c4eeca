"""The conformance suite while things go wrong by plan: right, or a typed error, or noticed.

When this fails, a rare failure gives a wrong result without an error.
"""

import threading
from collections import Counter

import forked
import numpy as np
import pytest
from census import census, none_left
from where import ROOT

import sparkle_drv as sp
from sparkle_drv.testing import emu, fault_suite, suite
from sparkle_drv.testing.checks import base
from sparkle_drv.testing.emulated_faults import apply
from sparkle_drv.testing.emulator import Machine
from sparkle_drv.testing.fault_suite import NOTICED, REFUSED, RIGHT, WRONG
from sparkle_drv.testing.faults import KINDS, Fault, Schedule

CHIPS = ["gfx1100", "gfx1036"]
SCHEDULES = 100
PARTS = 5
LIMIT_S = 0.1  # how long a planned hang lasts
FUZZ = f"""
import runpy, sys
fuzz = runpy.run_path({str(ROOT / "tests" / "fault" / "fuzz_schedules.py")!r})
sys.exit(fuzz["main"](sys.argv[1:]))
"""

total: Counter[str] = Counter()


def check_of(function):
    return base.Check("planted", "kernels", function)


@pytest.mark.unmeasured  # the same lines a hundred times: the tests below run them, too
@pytest.mark.parametrize("part", range(PARTS))
def test_schedules(part):
    """Seeds of one part; `make fuzz-faults` runs as many more as one likes."""
    for seed in range(part, SCHEDULES, PARTS):
        report = fault_suite.run(Schedule(seed), CHIPS[seed // PARTS % 2], job_limit_s=LIMIT_S)
        assert not report.wrong, report
        total.update(report.happened)


def strict(count, timeout_s):
    """`make fuzz-strict` in a process of its own: a crash is a failure, too."""
    done = forked.run(FUZZ, "--strict", 0, count, timeout=timeout_s)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert f"{count} schedules from 0: 0 wrong" in done.stdout


def test_strict_schedules():
    strict(6, 90)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_thousand_strict_schedules():
    strict(1000, 1200)


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


def twice(dev):
    """Other numbers in the same memory: the second launch must not see the first one's."""
    with dev.kernel("vecadd_f32") as k, dev.buffer(400) as x, dev.buffer(400) as y:
        for value in (1.0, 2.0):
            dev.default_queue.write(x, np.full(100, value, np.float32))
            dev.default_queue.launch(k, y, x, x, 100, groups=1).wait()
            assert (y.read(np.float32, 100) == 2 * value).all()


def never_right(dev):
    assert dev is None, "the device said so"


def untyped(dev):
    raise OSError("no type of ours")


def leaking(dev):
    """Leaves memory that no device owns any more."""
    from sparkle_drv._native import ffi, lib

    out = ffi.new("struct sp_amdgpu_memory **")
    assert lib.sp_amdgpu_alloc(dev._backend._native.device, 4096, lib.SP_AMDGPU_DEVICE, out) == 0


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


@pytest.mark.parametrize(
    ("plan", "unplanned"),
    [
        (NONE, ["unmapped: "]),
        (Schedule(1, [Fault("job", 9, "pagefault", va=0x7000)]), ["unmapped: "]),
        (Schedule(1, [Fault("job", 9, "pagefault", va=0x5000)]), []),
    ],
)
def test_a_fault_that_nobody_planned_is_told(plan, unplanned):
    """Even where the device refuses as it should: some program or packet is wrong."""

    def faulting(dev):
        apply(Schedule(0, [Fault("job", 1, "pagefault", va=0x5000)]), emu.machine())
        compared(dev)

    report = fault_suite.run(plan, "gfx1036", [check_of(faulting), check_of(compared)])
    assert report.outcomes[0].status == REFUSED
    assert [text[:10] for text in report.unplanned] == unplanned
    assert bool(report.wrong) == bool(unplanned)


def test_strict_names_a_missing_invalidation(monkeypatch):
    """The control of `make fuzz-strict`: a card whose packets invalidate nothing."""

    def flawed(*args, **options):
        machine = Machine(*args, **options)
        machine.plant("gcr", 31)
        return machine

    monkeypatch.setattr(fault_suite, "Machine", flawed)
    report = fault_suite.run(NONE, "gfx1100", [check_of(twice)], name_stale=True)
    assert report.wrong
    assert "stale: " in report.unplanned[0]
    assert "_INV between the two" in report.unplanned[0]


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
