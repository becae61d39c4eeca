"""Invariants of a device's health over random sequences of events.

When this fails, some sequence of events leaves a device in a state without an exit.
"""

from __future__ import annotations

import itertools
import math
import random

import pytest

from sparkle_drv.sched.health.backoff import MOST_S
from sparkle_drv.sched.health.device import Health
from sparkle_drv.sched.health.states import State
from sparkle_drv.sched.health.thresholds import FAILURES, STORY, TRIES

SEEDS = range(100)
EVENTS = ("started", "idle", "progress", "beat", "missed_beat", "failed", "tries", "tried")


class Played:
    """A Health, and what the events so far allow it to be."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.missed = self.chance.randint(1, 5)
        self.health = Health("cuda:0", missed=self.missed, seed=seed)
        self.weights = [self.chance.random() ** 2 + 0.02 for _ in EVENTS]
        self.now_s = self.deadline_s = self.silent = self.failures = self.tries = 0

    def step(self) -> None:
        chance, health = self.chance, self.health
        self.now_s += chance.choice([0.0, 0.01, 0.3, 0.5, 1.0, 5.0, 100.0])
        (event,) = chance.choices(EVENTS, self.weights)
        arguments: list[object] = []
        if event == "started":
            arguments = [self.now_s + chance.choice([-0.1, 0.0, 0.1, 3.0])]
        elif event == "progress":
            arguments = [chance.choice([1e-6, 0.1, 0.18, 1.0]), chance.choice([0.0, 1e-5, 0.1])]
        elif event == "failed":
            arguments = ["KernelFault", chance.random() < 0.1]
        elif event == "tried":
            arguments = [chance.random() < 0.5]
        before, made, at_s = health.state, len(health.story), health.try_at_s
        getattr(health, event)(self.now_s, *arguments)
        self.count(event, arguments, before)
        self.check(event, arguments, before, made, at_s)

    def count(self, event: str, arguments: list[object], before: State) -> None:
        """What has happened, by the words of the interface."""
        if event in ("progress", "beat") or self.health.state is State.PROBATION is not before:
            self.silent = 0
        self.silent += event == "missed_beat"
        self.failures += event == "failed" and before is not State.LOST
        self.tries += self.health.state is State.PROBATION is not before
        if event == "started" and before is not State.LOST:
            self.deadline_s = max(self.deadline_s, arguments[0])
        if event == "idle" or self.health.state is State.LOST:
            self.deadline_s = -math.inf

    def check(
        self, event: str, arguments: list[object], before: State, made: int, at_s: float
    ) -> None:
        health, after = self.health, self.health.state
        assert 0 <= health.weight <= 1
        assert health.takes_work == (health.weight > 0)
        assert health.weight == 0 or after not in (State.LOST, State.SUSPECT)
        assert health.weight < 1 or after is State.HEALTHY
        assert not health.due(self.now_s) or after is not State.LOST
        story = health.story
        assert all(one.after is two.before for one, two in itertools.pairwise(story))
        assert not story or story[-1].after is after
        assert len(story) <= STORY
        if after is not before:
            assert len(story) == min(made + 1, STORY) or event == "progress"
            assert story[-1].at_s == self.now_s
        waits = after is State.LOST and self.tries < TRIES
        waits = waits or (after is State.SLOW and health.staging)
        assert math.isfinite(health.try_at_s) == waits
        assert not waits or health.try_at_s <= self.now_s + MOST_S
        if before is State.LOST is not after:
            assert (event, after) == ("tries", State.PROBATION)
            assert self.now_s >= at_s
        if after is State.LOST is not before:
            assert (
                (event == "missed_beat" and self.silent >= self.missed)
                or (event == "failed" and (arguments[1] or self.failures >= FAILURES))
                or (before is State.PROBATION and event in ("missed_beat", "failed", "tried"))
            )
        if event == "missed_beat" and self.now_s <= self.deadline_s:
            assert after is before
        if after is State.HEALTHY is not before:
            assert event == "progress"
            self.failures = self.tries = 0


# state: the states that may follow it. Slow twice: staging only.
FOLLOW = {
    State.HEALTHY: {State.SLOW, State.SUSPECT, State.LOST},
    State.SLOW: {State.HEALTHY, State.SLOW, State.SUSPECT, State.LOST, State.PROBATION},
    State.SUSPECT: {State.SLOW, State.BACK, State.LOST},
    State.LOST: {State.PROBATION},
    State.PROBATION: {State.BACK, State.SLOW, State.LOST},
    State.BACK: {State.HEALTHY, State.SLOW, State.SUSPECT, State.LOST},
}


def test_any_sequence_of_events():
    reached: dict[State, set[State]] = {state: set() for state in State}
    for seed in SEEDS:
        played = Played(seed)
        for _ in range(200):
            played.step()
        for step in played.health.story:
            reached[step.before].add(step.after)
        first, *rest = played.health.explain().splitlines()
        assert first.startswith(f"cuda:0: {played.health.state.value}, ")
        assert len(rest) == len(played.health.story)
    assert reached == FOLLOW


@pytest.mark.unmeasured
def test_a_device_whose_heartbeats_come_back_is_never_lost():
    for seed in SEEDS:
        chance, health, now_s = random.Random(seed), Health("cuda:0", seed=seed), 0.0
        for _ in range(100):
            predicted_s = chance.choice([0.001, 0.1, 3.0])
            end_s = now_s + predicted_s * chance.choice([0.9, 1.0, 2.5, 20.0])
            begun_s = now_s
            health.started(now_s, now_s + predicted_s)
            while (now_s := now_s + 0.25) < end_s:
                if health.due(now_s):
                    late = chance.choice([0, 0, 1, 2, 3])  # heartbeats before one that comes back
                    for _ in range(late):
                        now_s += health.heartbeat_s
                        health.missed_beat(now_s)
                    health.beat(now_s + 0.1)
            now_s = max(now_s, end_s)
            health.progress(now_s, now_s - begun_s, predicted_s)
            health.tries(now_s)
        lost = [str(step) for step in health.story if step.after is State.LOST]
        assert not lost, health.explain()


@pytest.mark.unmeasured
def test_a_device_that_freezes_is_lost_in_bounded_time():
    for seed in SEEDS:
        chance = random.Random(seed)
        missed, heartbeat_s = chance.randint(1, 6), chance.choice([0.05, 0.5, 2.0])
        health = Health("cuda:0", heartbeat_s, missed)
        begun_s = now_s = chance.uniform(0, 100)
        deadline_s = now_s + chance.choice([0.0, 0.01, 3.0])
        health.started(now_s, deadline_s)
        while health.state is not State.LOST:
            now_s += 0.01
            if health.due(now_s):
                now_s += heartbeat_s
                health.missed_beat(now_s)
        assert now_s > deadline_s
        silent_s = max(deadline_s, begun_s + heartbeat_s)  # here the first heartbeat is due
        assert now_s <= silent_s + missed * (heartbeat_s + 0.011)


def test_a_sequence_gives_the_same_story_again():
    for seed in SEEDS[:20]:
        told = []
        for _ in range(2):
            played = Played(seed)
            for _ in range(200):
                played.step()
            told.append(played.health.explain())
        assert told[0] == told[1]
