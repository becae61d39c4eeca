"""Waits before a device is tried: they grow, are capped, and jitter follows the seed.

When this fails, a broken device is tried too often and slows every call.
"""

from __future__ import annotations

import math

import pytest

from sparkle_drv.sched.health.backoff import FIRST_S, JITTER, MOST_S, wait_s
from sparkle_drv.sched.health.device import Health
from sparkle_drv.sched.health.states import State
from sparkle_drv.sched.health.thresholds import RECOVERED, STRIKES, TRIES


def waits(uri: str = "cuda:0", seed: int = 0, times: int = TRIES) -> list[float]:
    """Of a device that fails at each try."""
    health, now_s, found = Health(uri, seed=seed), 5.0, []
    health.failed(now_s, "DeviceLost", lost=True)
    for _ in range(times):
        found.append(health.try_at_s - now_s)
        now_s = health.try_at_s
        assert health.tries(now_s)
        health.tried(now_s, False)
    assert times < TRIES or health.try_at_s == math.inf
    return found


def test_waits_grow_whatever_chance_says_and_are_capped():
    for tries in range(6):
        assert wait_s(tries + 1, 1.0) > wait_s(tries, 0.0) or wait_s(tries, 0.0) == MOST_S
        assert wait_s(tries, 0.0) == min(MOST_S, FIRST_S * 2**tries)
    for tries in (10, 100, 10_000):
        assert wait_s(tries, 0.0) == MOST_S
        assert wait_s(tries, 1.0) == MOST_S * (1 - JITTER)


@pytest.mark.parametrize("seed", range(20))
def test_jitter_is_bounded(seed):
    for tries, wait in enumerate(waits(seed=seed)):
        most = wait_s(tries, 0.0)
        assert most * (1 - JITTER) - 1e-9 <= wait <= most + 1e-9


def test_jitter_follows_the_seed_and_the_device():
    assert waits(seed=3) == waits(seed=3)
    assert len({wait for seed in range(20) for wait in waits(seed=seed, times=3)}) == 60
    assert waits("cuda:1") != waits("cuda:0")  # lost together, not tried together


def test_a_device_is_gone_for_good_after_many_tries():
    health = Health("cuda:0")
    health.failed(0.0, "DeviceLost", lost=True)
    for _ in range(TRIES):
        assert health.tries(health.try_at_s)
        health.tried(health.story[-1].at_s, False, "no such device")
    assert not health.tries(1e12)
    assert (health.state, health.try_at_s) == (State.LOST, math.inf)
    told = health.explain().splitlines()
    assert told[0].endswith("the try failed: no such device; gone for good")
    assert len(told) == 2 + 2 * TRIES  # nothing of it is left out
    assert health.story[-1].at_s > 660


def test_waits_begin_anew_when_it_is_healthy_again():
    health = Health("cuda:0")
    for at in range(0, 1000, 100):
        health.failed(at, "DeviceLost", lost=True)
        assert health.try_at_s - at <= FIRST_S
        assert health.tries(at + 50)
        health.tried(at + 50, True)
        for _ in range(RECOVERED):
            health.progress(at + 51, 0.1, 0.1)
        assert health.state is State.HEALTHY


def test_a_device_that_is_lost_before_it_is_healthy_waits_longer():
    health = Health("cuda:0")
    health.failed(0, "DeviceLost", lost=True)
    assert health.tries(50)
    health.tried(50, True)
    health.progress(51, 0.1, 0.1)
    health.failed(52, "DeviceLost", lost=True)
    assert health.try_at_s - 52 > FIRST_S


def test_a_device_that_answers_is_never_gone_for_good():
    health = Health("cuda:0")
    for _ in range(2 * STRIKES):
        health.progress(0.0, 1.0, 0.1)
    for _ in range(2 * TRIES):
        now_s = health.try_at_s
        assert health.tries(now_s)
        health.tried(now_s, False)
        assert health.try_at_s - now_s <= MOST_S
