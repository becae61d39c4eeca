"""Every transition of a device's health by name, when heartbeats are due, and the story.

When this fails, a device that recovered is never used again, or a lost one is.
"""

from __future__ import annotations

import itertools

import pytest

from sparkle_drv.sched.health.device import Health
from sparkle_drv.sched.health.states import State, Transition
from sparkle_drv.sched.health.thresholds import FAILURES, RECOVERED, SLOW_WEIGHT, STORY, STRIKES

HEALTHY, SLOW, SUSPECT = State.HEALTHY, State.SLOW, State.SUSPECT
LOST, PROBATION, BACK = State.LOST, State.PROBATION, State.BACK
BAD, GOOD, MIDDLING = (1.0, 0.1), (0.1, 0.1), (0.18, 0.1)  # took, predicted


def steps(health: Health) -> list[tuple[State, State]]:
    story = health.story
    for one, other in itertools.pairwise(story):
        assert one.after is other.before
        assert one.at_s <= other.at_s
    assert all(step.why for step in story)
    assert not story or story[-1].after is health.state
    return [(step.before, step.after) for step in story]


def pieces(health: Health, now_s: float, *ended: tuple[float, float]) -> None:
    for took_s, predicted_s in ended:
        health.progress(now_s, took_s, predicted_s)


def slow() -> Health:
    health = Health("egl:0")
    pieces(health, 1.0, *[BAD] * STRIKES)
    return health


def staging() -> Health:
    health = slow()
    pieces(health, 2.0, *[BAD] * STRIKES)
    return health


def suspect() -> Health:
    """By silence."""
    health = Health("egl:0")
    health.started(0.0, 0.1)
    health.missed_beat(1.0)
    return health


def lost() -> Health:
    health = suspect()
    for at in range(3):
        health.missed_beat(1.5 + at / 2)
    return health


def tried(health: Health) -> Health:
    assert health.tries(health.try_at_s)
    return health


def back() -> Health:
    health = tried(lost())
    health.tried(9.0, True)
    return health


def test_a_new_device_is_healthy():
    health = Health("cpu")
    assert (health.state, health.weight, health.takes_work) == (HEALTHY, 1.0, True)
    assert health.story == ()
    assert not health.due(1e9)
    assert not health.tries(1e9)
    assert health.explain() == "cpu: healthy, share 1: nothing has gone wrong yet"


def test_healthy_to_slow():
    health = Health("egl:0")
    pieces(health, 1.0, *[BAD] * (STRIKES - 1))
    assert health.state is HEALTHY
    pieces(health, 1.0, BAD)
    assert steps(health) == [(HEALTHY, SLOW)]
    assert (health.weight, health.takes_work) == (SLOW_WEIGHT, True)
    assert "took 1 s, predicted 0.1 s" in health.why


def test_a_stall_now_and_then_is_not_slow():
    health = Health("egl:0")
    for _ in range(50):
        pieces(health, 1.0, *[BAD] * (STRIKES - 1), MIDDLING)
    assert health.story == ()


def test_short_pieces_may_be_late_by_what_the_host_takes():
    health = Health("egl:0")
    pieces(health, 1.0, *[(9e-4, 2e-5)] * 20)
    assert health.story == ()


def test_pieces_without_a_prediction_are_a_sign_of_life_alone():
    health = suspect()
    pieces(health, 1.2, *[(9.0, 0.0)] * 20)
    assert steps(health) == [(HEALTHY, SUSPECT), (SUSPECT, SLOW)]


def test_slow_to_staging_only():
    health = staging()
    assert steps(health) == [(HEALTHY, SLOW), (SLOW, SLOW)]
    assert (health.weight, health.takes_work, health.staging) == (0.0, False, True)
    assert 2.0 < health.try_at_s < 4.0
    pieces(health, 2.5, *[BAD] * 20)
    assert len(health.story) == 2


@pytest.mark.parametrize("made", [slow, staging])
def test_slow_to_healthy(made):
    health = made()
    pieces(health, 3.0, *[GOOD] * (RECOVERED - 1), MIDDLING, MIDDLING)
    assert health.state is SLOW
    pieces(health, 3.0, GOOD)
    assert steps(health)[-1] == (SLOW, HEALTHY)
    assert (health.weight, health.staging) == (1.0, False)


def test_a_far_slower_piece_puts_recovery_off():
    health = slow()
    pieces(health, 3.0, *[GOOD] * (RECOVERED - 1), BAD, *[GOOD] * (RECOVERED - 1))
    assert health.state is SLOW


def test_staging_to_probation_to_back():
    health = tried(staging())
    assert health.weight == 2**-RECOVERED
    health.tried(9.0, True)
    assert steps(health)[-2:] == [(SLOW, PROBATION), (PROBATION, BACK)]
    assert not health.staging


def test_staging_to_probation_to_staging():
    """It answers: a try that fails does not make it lost."""
    health = tried(staging())
    health.tried(9.0, False, "3 s for 0.1 s")
    assert steps(health)[-1] == (PROBATION, SLOW)
    assert (health.weight, health.staging) == (0.0, True)
    assert 9.0 + 1.5 <= health.try_at_s <= 9.0 + 2.0  # the second wait


def test_healthy_to_suspect_to_lost_by_silence():
    health = Health("egl:0")
    health.started(0.0, 0.1)
    for at in range(4):
        assert health.due(0.5 + at / 2)
        assert health.state is (SUSPECT if at else HEALTHY)
        health.missed_beat(1.0 + at / 2)
    assert steps(health) == [(HEALTHY, SUSPECT), (SUSPECT, LOST)]
    assert health.why == "no answer to 4 heartbeats in a row"
    assert (health.weight, health.takes_work, health.due(99.0)) == (0.0, False, False)


def test_the_number_of_heartbeats_is_the_callers():
    health = Health("egl:0", heartbeat_s=0.01, missed=1)
    health.started(0.0, 0.0)
    assert not health.due(0.005)
    assert health.due(0.011)
    health.missed_beat(0.021)
    assert steps(health) == [(HEALTHY, LOST)]


def test_suspect_to_slow_by_a_heartbeat():
    health = suspect()
    assert (health.weight, health.takes_work) == (0.0, False)
    health.beat(1.1)
    assert steps(health)[-1] == (SUSPECT, SLOW)
    assert health.weight == SLOW_WEIGHT
    for at in range(3):  # heartbeats are counted anew
        health.missed_beat(2.0 + at / 2)
    assert health.state is SUSPECT


def test_suspect_and_staging_stays_staging():
    health = staging()
    health.failed(2.5, "KernelFault")
    assert (health.state, health.staging) == (SUSPECT, True)
    health.beat(2.6)
    assert (health.state, health.weight) == (SLOW, 0.0)
    assert health.try_at_s > 2.6


def test_suspect_by_a_failure_to_back_to_healthy():
    health = Health("cuda:0")
    health.failed(1.0, "KernelFault: at 0x10")
    assert (health.state, health.why) == (SUSPECT, "KernelFault: at 0x10")
    assert health.due(1.0)  # nothing runs there, and only a heartbeat can clear it
    health.idle(1.0)
    assert health.due(1.0)
    health.beat(1.1)
    pieces(health, 2.0, *[GOOD] * RECOVERED)
    assert steps(health)[1:] == [(SUSPECT, BACK), (BACK, HEALTHY)]


def test_a_suspect_device_without_work_is_lost_by_heartbeats():
    health = Health("cuda:0")
    health.failed(1.0, "KernelFault")
    health.idle(1.0)
    for at in range(4):
        health.missed_beat(1.5 + at / 2)
    assert steps(health)[-1] == (SUSPECT, LOST)


def test_failures_again_and_again_are_lost():
    health = Health("cuda:0")
    for at in range(FAILURES):
        assert health.state is (BACK if at else HEALTHY)
        health.failed(at, "KernelFault")
        health.beat(at + 0.1)
    assert steps(health)[-1] == (BACK, LOST)
    assert "failure 3" in health.why
    assert "KernelFault" in health.why


def test_failures_are_forgotten_when_it_is_healthy_again():
    health = Health("cuda:0")
    for at in range(3 * FAILURES):
        health.failed(at, "KernelFault")
        health.beat(at + 0.1)
        pieces(health, at + 0.2, *[GOOD] * RECOVERED)
        assert health.state is HEALTHY


@pytest.mark.parametrize("made", [lambda: Health("cuda:0"), slow, staging, suspect, back])
def test_a_device_that_says_it_is_gone_is_lost_at_once(made):
    health = made()
    before = health.state
    health.failed(10.0, "DeviceLost: reset", lost=True)
    assert steps(health)[-1] == (before, LOST)
    assert health.why == "DeviceLost: reset"
    assert 10.7 < health.try_at_s <= (12.0 if before is BACK else 11.0)


def test_lost_to_probation_to_back_to_healthy():
    health = lost()
    assert not health.tries(health.try_at_s - 0.01)
    tried(health)
    assert (health.state, health.takes_work) == (PROBATION, True)
    assert not health.tries(1e9)  # a second thread
    health.tried(9.0, True)
    shares = [health.weight]
    for _ in range(RECOVERED):
        pieces(health, 10.0, GOOD)
        shares.append(health.weight)
    assert shares == [0.125, 0.25, 0.5, 1.0]
    assert steps(health)[2:] == [(LOST, PROBATION), (PROBATION, BACK), (BACK, HEALTHY)]
    health.tried(11.0, False)  # too late to matter
    assert health.state is HEALTHY


def fails(health: Health) -> None:
    health.tried(9.0, False, "no answer")


def misses(health: Health) -> None:
    health.started(8.0, 8.1)
    health.missed_beat(9.0)


def raises(health: Health) -> None:
    health.failed(9.0, "FenceTimeout")


@pytest.mark.parametrize("how", [fails, misses, raises])
def test_probation_to_lost(how):
    health = tried(lost())
    how(health)
    assert steps(health)[-1] == (PROBATION, LOST)
    assert health.why.startswith("the try failed: ")
    assert 9.0 + 1.5 <= health.try_at_s <= 9.0 + 2.0  # longer than the first


def test_probation_to_back_by_a_piece():
    health = tried(lost())
    pieces(health, 9.0, GOOD)
    assert steps(health)[-1] == (PROBATION, BACK)
    assert health.weight == 0.25


@pytest.mark.parametrize("made", [lost, staging])
def test_probation_to_staging_when_it_only_answers(made):
    health = tried(made())
    health.started(5.0, 5.1)
    for at in range(STRIKES):
        health.beat(6.0 + at / 2)
    assert steps(health)[-1] == (PROBATION, SLOW)
    assert health.staging


def test_a_lost_device_forgets_its_work():
    health = tried(lost())
    assert not health.due(1e9)  # what ran there is given up
    health.missed_beat(1e9)
    assert health.state is PROBATION


def test_back_to_staging():
    health = back()
    pieces(health, 9.5, GOOD, *[BAD] * STRIKES)
    assert steps(health)[-1] == (BACK, SLOW)
    assert health.weight == 0.0


def test_back_to_suspect_to_back():
    """Its share is not that of a slow device: it has to grow again."""
    health = back()
    pieces(health, 9.5, GOOD, GOOD)
    health.started(9.5, 9.6)
    health.missed_beat(10.5)
    health.beat(10.6)
    assert steps(health)[-2:] == [(BACK, SUSPECT), (SUSPECT, BACK)]
    assert health.weight == 2**-RECOVERED


def test_signs_of_a_lost_device_change_nothing():
    health = lost()
    at, told = health.try_at_s, health.explain()
    health.started(4.0, 9.0)
    health.beat(4.1)
    health.missed_beat(4.6)
    health.failed(4.7, "late", lost=True)
    pieces(health, 4.8, GOOD, GOOD, GOOD, BAD)
    health.idle(4.9)
    health.tried(5.0, True)
    assert (health.explain(), health.try_at_s) == (told, at)


def test_a_kernel_of_three_seconds_is_not_silent():
    health = Health("cuda:0")
    health.progress(9.9, *GOOD)
    health.started(10.0, 13.0)
    health.started(10.1, 10.2)  # a shorter one beside it
    for at in range(301):
        now_s = 10.0 + at / 100
        assert not health.due(now_s)
        health.missed_beat(now_s)
    assert health.story == ()
    assert health.due(13.01)


def test_a_late_kernel_whose_heartbeats_come_back_is_slow_never_lost():
    health = Health("cuda:0")
    health.started(0.0, 3.0)
    for at in range(7, 12):  # late by less than its prediction
        health.beat(at / 2)
    assert health.story == ()
    for at in range(13, 200):
        assert health.due(at / 2)
        health.beat(at / 2)
    assert steps(health) == [(HEALTHY, SLOW), (SLOW, SLOW)]
    assert "its work runs for" in health.why


def test_a_heartbeat_is_due_after_silence():
    health = Health("cuda:0")
    health.started(5.0, 5.01)
    assert not health.due(5.4)
    assert health.due(5.5)
    health.progress(5.6, *GOOD)
    health.started(5.6, 5.7)
    assert not health.due(6.0)
    health.beat(6.1)
    assert [health.due(6.5), health.due(6.6)] == [False, True]
    health.idle(6.7)
    assert not health.due(99.0)
    health.missed_beat(99.0)  # asked while it had work
    assert health.story == ()
    health.started(100.0, 100.1)  # silence counts from here
    assert [health.due(100.4), health.due(100.5)] == [False, True]


def test_idle_forgets_the_deadline():
    health = Health("cuda:0")
    health.started(0.0, 3.0)
    health.idle(0.1)
    health.started(0.2, 0.3)
    assert health.due(0.8)


def test_progress_outweighs_a_heartbeat_that_is_missed():
    health = Health("cuda:0")
    health.started(0.0, 0.1)
    health.progress(0.8, *GOOD)
    health.missed_beat(1.0)
    assert health.story == ()


def test_the_story_is_told():
    health = lost()
    first, *rest = health.explain().splitlines()
    assert first.startswith("egl:0: lost, share 0: no answer to 4 heartbeats in a row; tried at 3.")
    assert rest == [
        "  1.000 s: healthy -> suspect: no answer to 1 heartbeat",
        "  2.500 s: suspect -> lost: no answer to 4 heartbeats in a row",
    ]
    assert health.story[0] == Transition(1.0, HEALTHY, SUSPECT, "no answer to 1 heartbeat")
    assert staging().explain().startswith("egl:0: slow, only staging: late 3 times in a row")


def test_the_story_is_bounded():
    health = Health("egl:0")
    for at in range(STORY):
        health.failed(at, "KernelFault")
        health.beat(at)
        pieces(health, at, *[GOOD] * RECOVERED)
    assert len(health.story) == STORY
    assert health.story[-1].at_s == STORY - 1
    steps(health)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"heartbeat_s": 0.0}, "expected heartbeat_s above 0, got 0.0"),
        ({"heartbeat_s": float("nan")}, "expected heartbeat_s above 0, got nan"),
        ({"missed": 0}, "missed: expected 1 heartbeat or more, got 0"),
    ],
)
def test_bad_options_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        Health("cpu", **options)
