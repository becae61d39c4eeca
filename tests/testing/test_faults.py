"""Plans of faults as data: drawn alike from one seed, told and read back, refused when wrong.

When this fails, a failing run cannot be repeated from its seed.
"""

import pytest

from sparkle_drv.testing.faults import EVENTS, KINDS, Fault, Schedule


def test_a_seed_draws_one_plan_and_another_another():
    assert Schedule(7) == Schedule(7)
    assert hash(Schedule(7)) == hash(Schedule(7))
    assert len({Schedule(seed) for seed in range(100)}) == 100
    assert Schedule(7) != Schedule(7, [])
    assert Schedule(7) != "schedule 7"


def test_every_plan_is_read_back_from_its_text():
    for seed in range(300):
        plan = Schedule(seed)
        assert Schedule.parse(str(plan)) == plan, plan


def test_every_kind_at_every_event_is_drawn():
    drawn = {(fault.what, fault.on) for seed in range(2000) for fault in Schedule(seed)}
    assert {what for what, _ in drawn} == set(KINDS)
    assert {on for _, on in drawn} == set(EVENTS)


def test_kinds_and_sizes_as_asked_for():
    plans = [Schedule(seed, kinds=["slow"], jobs=3, most=2) for seed in range(50)]
    assert all(plan.kinds == {"slow"} and 1 <= len(plan) <= 2 for plan in plans)
    assert {fault.at for plan in plans for fault in plan} == {1, 2, 3}


@pytest.mark.parametrize(
    "asked", [{"most": 0}, {"jobs": 0}, {"kinds": ()}, {"kinds": ("burn",)}], ids=str
)
def test_what_cannot_be_drawn(asked):
    with pytest.raises(ValueError, match="expected kinds of faults"):
        Schedule(3, **asked)


def test_what_is_not_said_is_as_usual():
    fault = Fault.parse("submit 3: fail error=EINTR")
    assert fault == Fault("submit", 3, "fail", error="EINTR", count=1)
    assert str(fault) == "submit 3: fail error=EINTR count=1"
    assert str(Fault.parse("job 2: corrupt mask=0x10")) == "job 2: corrupt mask=0x10 seed=0"
    assert {fault, Fault("submit", 3, "fail", error="EINTR")} == {fault}
    assert fault != str(fault)


def test_comments_and_empty_lines():
    text = "# why\n\nschedule 9  # nine\n  job 1: unplug\n"
    assert Schedule.parse(text) == Schedule(9, [Fault("job", 1, "unplug")])
    assert list(Schedule.parse("schedule 1")) == []


@pytest.mark.parametrize(
    "line",
    [
        "",
        "job: hang",
        "job x: hang",
        "job 1 2: hang",
        "job 0: hang",
        "job 1:",
        "job 1: burn",
        "job 1: hang at=3",
        "job 1: hang self=3",
        "job 1: slow factor=ring",
        "job 1: slow factor=3 factor=4",
        "job 18446744073709551616: hang",
        "wait 1: hang",
        "job 1: fail",
        "job 1: hang recovery=maybe",
        "job 1: hang recovery",
        "job 1: hang va=1",
        "submit 1: fail error=ENOTHING",
        "job 1: corrupt mask=0",
        "job 1: slow factor=0",
        "job 1: slow factor=-2",
        "job 1: reset vram_lost=2",
    ],
)
def test_lines_that_mean_nothing(line):
    with pytest.raises((ValueError, TypeError)):
        Fault.parse(line)


@pytest.mark.parametrize("text", ["", "schedule", "schedule x", "job 1: unplug"])
def test_texts_without_a_head(text):
    with pytest.raises(ValueError, match="schedule SEED"):
        Schedule.parse(text)


def test_a_fault_does_not_change_and_is_typed():
    fault = Fault("job", 1, "unplug")
    with pytest.raises(AttributeError):
        fault.at = 2
    with pytest.raises(TypeError, match="at"):
        Fault("job", "1", "unplug")
    with pytest.raises(TypeError, match="count"):
        Fault("job", 1, "slow", count="2")
