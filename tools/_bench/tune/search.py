"""The search for the best plan: pure policy over arms that can be sampled, with an injected clock.

The search climbs: the best plan so far races its untried neighbours, until none wins or time is up.
A race is successive halving: all remaining plans take one sample each in turn, then the slower half
leaves. So a busy moment affects all alike. A duel with new samples decides at the end, because the
samples that made a plan win would overstate by how much. Called by tune.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from _bench.rows import stats

SAMPLES_A_ROUND = 3
HOPELESS = 2.0
WORTH = 0.01  # the climb goes on only if a neighbour wins by this share
SEARCH_SHARE = 0.75  # of the time; the rest is for the duel

P = TypeVar("P")


class Arm(Protocol):
    """A plan that was verified and can be timed."""

    def sample(self) -> float:
        """Seconds per launch."""
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
        """Median of the lower half: the time without disturbance. Used only to rank."""
        ordered = sorted(self.samples)
        half = ordered[: max(1, (len(ordered) + 1) // 2)]
        return half[len(half) // 2]


@dataclass
class Outcome(Generic[P]):
    """The result of a search. `ratio` is the model's time over the best plan's, by medians of the
    duel, with its 95 % interval: below 1 if the model's plan won. All are 1 without a proper duel.
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
    """`admit(plan)` loads and verifies; None: the plan is refused or wrong. `clock` counts seconds.
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
    """Samples in the last duel, however late it is."""
    samples: int = SAMPLES_A_ROUND
    """Samples of each plan in the first round of a race."""
    hopeless: float = HOPELESS
    """A plan that takes so many times the best's time at the first look does not race."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._tried: set[P] = set()
        self._start = self.clock()

    def _late(self, share: float = SEARCH_SHARE) -> bool:
        return self.clock() - self._start > share * self.budget_s

    def run(self, seeds: Sequence[P]) -> Outcome[P]:
        """`seeds[0]` is the model's plan. Raises ValueError if it is not admitted."""
        model = self._entrant(seeds[0])
        if model is None:
            raise ValueError("the model's own plan is refused or wrong: nothing to compare with")
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
        """The plans that are admitted while there is time, and not hopeless at the first look."""
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
        """Successive halving. The plan to beat, `entrants[0]`, stays to the end, so that it is
        sampled as often, and stays open. Other losers are closed."""
        champion, left, rounds = entrants[0], list(entrants), self.samples
        for entrant in entrants:
            entrant.samples.clear()  # older samples: only samples taken in turn rank the plans
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
        """Fresh samples in turn, for the rest of the time, at least a few."""
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
        if low <= 1.0:  # no clear difference: the model's choice stays
            ratio = (model_s / best_s, low, high)
            return Outcome(model.plan, model.plan, model_s, model_s, ratio, tried, complete)
        ratio = (model_s / best_s, low, high)
        return Outcome(model.plan, best.plan, model_s, best_s, ratio, tried, complete)
