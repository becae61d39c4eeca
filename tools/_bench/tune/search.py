"""The search for the best plan: a pure policy over plans that can be sampled ("arms"), with an
injected clock.

The search is a hill climbing: the best plan so far races its untried neighbours, until none wins or
time is up. A race is successive halving: all remaining plans take one sample each in turns, then
the slower half is dropped. A busy moment thus affects all alike. The samples that made a plan win
overstate its advantage. Therefore a final comparison, new samples of the best plan and the plan of
sparkle_drv.ops' tile model ("the model's plan"), decides at the end. Called by tune.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from _bench.rows import stats

SAMPLES_A_ROUND = 3
HOPELESS = 2.0
WORTH = 0.01  # the search moves on to a similar plan only if it is faster by this share
SEARCH_SHARE = 0.75  # share of the time for the search; the final comparison gets the rest

P = TypeVar("P")


class Arm(Protocol):
    """A plan that was verified and can be timed."""

    def sample(self) -> float:
        """Takes a sample and returns the seconds per launch."""
        ...

    def close(self) -> None: ...


@dataclass(eq=False)
class Entrant(Generic[P]):
    """A plan in the search, with its samples so far."""

    plan: P
    arm: Arm
    samples: list[float] = field(default_factory=list)

    def take(self) -> float:
        self.samples.append(self.arm.sample())
        return self.samples[-1]

    @property
    def typical(self) -> float:
        """The median of the lower half of the samples: the time without disturbance. Only used to
        rank plans.
        """
        ordered = sorted(self.samples)
        half = ordered[: max(1, (len(ordered) + 1) // 2)]
        return half[len(half) // 2]


@dataclass
class Outcome(Generic[P]):
    """The result of a search. At its end the plan of ops' tile model ("the model's plan") and the
    best plan found are measured in turns: the final comparison.

    `ratio` is the median time of the model's plan over that of the best plan found, with the two
    ends of its 95 % interval. Below 1 the model's plan is faster. If the search finds no better
    plan than the model's, there is no comparison, and all three numbers are 1. `best` is the
    model's plan unless the comparison shows clearly that the other plan is faster. `complete` says
    that the search ended because the best plan has no untried neighbours, not because time was up.
    """

    model: P
    best: P
    model_s: float
    best_s: float
    ratio: tuple[float, float, float]
    tried: int
    complete: bool


@dataclass
class Search(Generic[P]):
    """The search for the fastest plan. `admit(plan)` loads and verifies a plan, and returns None if
    the plan is refused or wrong. `clock` returns seconds.

    The search ends `budget_s` after its start, or a little later: a step that has begun is
    finished.
    """

    admit: Callable[[P], Arm | None]
    neighbours: Callable[[P], Sequence[P]]
    clock: Callable[[], float]
    budget_s: float
    seed: int = 0
    say: Callable[[str], None] = lambda what: None
    least_pairs: int = 10
    """Least number of samples in the final comparison, also when the time is up."""
    samples: int = SAMPLES_A_ROUND
    """Samples of each plan in the first round of a race."""
    hopeless: float = HOPELESS
    """A plan whose first samples take so many times the best's time is dropped before the race."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._tried: set[P] = set()
        self._start = self.clock()

    def _late(self, share: float = SEARCH_SHARE) -> bool:
        return self.clock() - self._start > share * self.budget_s

    def run(self, seeds: Sequence[P]) -> Outcome[P]:
        """Runs the search. It begins with the plans `seeds`; `seeds[0]` is the plan of ops' tile
        model. Raises ValueError if the device refuses that plan, or if its result is wrong.
        """
        model = self._entrant(seeds[0])
        if model is None:
            raise ValueError(
                "expected a valid plan from ops' tile model, got one that is refused or computes "
                "wrong results: there is nothing to compare other plans with"
            )
        best, complete = model, False
        candidates, first = list(seeds[1:]), True
        while True:
            winner = self._race([best, *self._enter(candidates, best)])
            moved = winner is not best and winner.typical < best.typical * (1 - WORTH)
            if winner is not best:
                loser = best if moved else winner
                best = winner if moved else best
                if loser is not model:
                    loser.arm.close()
            candidates = []
            if moved or first:
                candidates = [p for p in self.neighbours(best.plan) if p not in self._tried]
            first = False
            complete = not candidates
            if complete or self._late():
                break
        outcome = self._duel(model, best, complete)
        for entrant in {id(e): e for e in (model, best)}.values():
            entrant.arm.close()
        return outcome

    def _entrant(self, plan: P) -> Entrant[P] | None:
        self._tried.add(plan)
        arm = self.admit(plan)
        return None if arm is None else Entrant(plan, arm)

    def _enter(self, plans: Sequence[P], best: Entrant[P]) -> list[Entrant[P]]:
        """Loads and verifies `plans` in random order until time is up. Returns the valid plans.
        Takes two samples of each, and drops a plan whose shorter sample exceeds `hopeless` times a
        new sample of `best`.
        """
        found = []
        for plan in self._random.sample(list(plans), len(plans)):
            if self._late():
                break
            self.say(str(plan))
            entrant = self._entrant(plan)
            if entrant is None:
                continue
            if min(entrant.take(), entrant.take()) > self.hopeless * best.take():
                entrant.arm.close()
            else:
                found.append(entrant)
        return found

    def _race(self, entrants: list[Entrant[P]]) -> Entrant[P]:
        """Races plans by successive halving and returns the winner. `entrants[0]` is the plan to
        beat: it takes part in every round and is never closed. Every other loser is closed.
        """
        champion, left, rounds = entrants[0], list(entrants), self.samples
        for entrant in entrants:
            # drops the plan's older samples: only samples that the plans take in turns may rank
            # them
            entrant.samples.clear()
        while len(left) > 1:
            for _ in range(rounds):
                for entrant in self._random.sample(left, len(left)):
                    entrant.take()
                if self._late(1.0):
                    break
            left.sort(key=lambda entrant: entrant.typical)
            stay = left[: -(-len(left) // 2)]
            if champion not in stay and len(left) > 2:
                stay[-1] = champion
            for entrant in left:
                if entrant not in stay and entrant is not champion:
                    entrant.arm.close()
            left, rounds = stay, rounds * 2
        return left[0]

    def _duel(self, model: Entrant[P], best: Entrant[P], complete: bool) -> Outcome[P]:
        """Takes new samples of both plans in turns for the rest of the time, at least
        `least_pairs` of each. Returns the outcome, whose `complete` is the argument.
        """
        tried = len(self._tried)
        a, b = Entrant(model.plan, model.arm), Entrant(best.plan, best.arm)
        if best is model:
            for _ in range(self.samples):
                a.take()
            seconds = stats.summarize(a.samples).median
            one = (1.0, 1.0, 1.0)
            return Outcome(model.plan, model.plan, seconds, seconds, one, tried, complete)
        for done in range(1000):
            if done >= self.least_pairs and (self._late(1.0) or done >= 100):
                break
            for entrant in self._random.sample([a, b], 2):
                entrant.take()
        model_s, best_s = (stats.summarize(e.samples).median for e in (a, b))
        low, high = stats.ratio_interval(b.samples, a.samples, self.seed)
        if low <= 1.0:  # without a clear difference the plan of ops' tile model wins
            ratio = (model_s / best_s, low, high)
            return Outcome(model.plan, model.plan, model_s, model_s, ratio, tried, complete)
        ratio = (model_s / best_s, low, high)
        return Outcome(model.plan, best.plan, model_s, best_s, ratio, tried, complete)
