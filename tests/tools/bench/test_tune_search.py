"""The search of `bench.py tune` on made-up plans with a clock of their own. It finds the best,
ignores noise, never samples wrong plans, and closes everything.

When this fails, tuning keeps a plan that noise chose.
"""

import random

import pytest
from _bench.tune.search import Search


class World:
    """Plans are whole numbers; `cost(plan)` seconds each, times noise; admitting takes a second."""

    def __init__(self, cost, noise=0.0, wrong=(), seed=0):
        self.cost, self.noise, self.wrong = cost, noise, set(wrong)
        self.now, self.open, self.sampled, self.admitted = 0.0, set(), [], []
        self._random = random.Random(seed)

    def admit(self, plan):
        self.now += 1.0
        self.admitted.append(plan)
        if plan in self.wrong:
            return None
        assert plan not in self.open
        self.open.add(plan)
        return Arm(self, plan)

    def search(self, start, budget=1000.0, seeds=(), reach=3):
        around = lambda plan: [plan + d for d in range(-reach, reach + 1) if d]  # noqa: E731
        search = Search(self.admit, around, lambda: self.now, budget, seed=1)
        return search.run([start, *seeds])


class Arm:
    def __init__(self, world, plan):
        self.world, self.plan = world, plan

    def sample(self):
        assert self.plan in self.world.open
        seconds = self.world.cost(self.plan) * (1 + abs(self.world._random.gauss(0, 1)) * NOISE[0])
        self.world.now += seconds
        self.world.sampled.append(self.plan)
        return seconds

    def close(self):
        self.world.open.remove(self.plan)


NOISE = [0.0]


@pytest.fixture(autouse=True, params=[0.0, 0.05, 0.3], ids=["quiet", "usual", "loud"])
def noise(request):
    NOISE[0] = request.param
    return request.param


def test_it_climbs_to_the_best_and_says_how_far_it_was():
    world = World(lambda plan: 0.01 * (1 + abs(plan - 10) / 5))
    found = world.search(0)
    assert found.model == 0
    assert abs(found.best - 10) <= (0 if NOISE[0] == 0 else 3)
    ratio, low, high = found.ratio
    assert low <= ratio <= high
    assert ratio == pytest.approx(3.0, rel=0.02 + 2 * NOISE[0])
    assert found.complete
    assert not world.open


def test_the_model_stands_when_nothing_is_better():
    world = World(lambda plan: 0.01 * (1 + abs(plan)))
    found = world.search(0)
    assert (found.best, found.ratio[0] >= 0.5) == (0, True)
    assert found.best_s == found.model_s
    assert not world.open


def test_noise_alone_moves_nobody_far(noise):
    world = World(lambda plan: 0.01)
    found = world.search(0, budget=100)
    assert found.ratio[0] < 1 + noise + 0.01
    assert not world.open


def test_wrong_plans_are_never_timed():
    world = World(lambda plan: 0.01 / (1 + plan % 7), wrong=range(3, 100))
    found = world.search(0)
    assert found.best in range(-50, 3)
    assert not set(world.sampled) & world.wrong
    assert world.wrong & set(world.admitted)


def test_a_wrong_model_is_an_error():
    world = World(lambda plan: 1.0, wrong=[0])
    with pytest.raises(ValueError, match="ops' tile model"):
        world.search(0)
    assert not world.sampled


def test_the_budget_ends_it():
    world = World(lambda plan: 0.1 * 0.97**plan)
    found = world.search(0, budget=20)
    assert not found.complete
    assert world.now < 20 + 1 + 10 * 0.1 * 2 * 5  # what was begun is ended
    assert not world.open


def test_a_hopeless_plan_is_sampled_twice_at_most():
    world = World(lambda plan: 0.01 if plan == 0 else 10.0)
    world.search(0)
    assert max(world.sampled.count(plan) for plan in set(world.sampled) - {0}) <= 2


def test_seeds_are_tried_and_may_win():
    world = World(lambda plan: 0.001 if plan == 500 else 0.01)
    assert world.search(0, seeds=[500]).best == 500


def test_no_plan_is_admitted_twice():
    world = World(lambda plan: 0.01 * (1 + abs(plan - 10) / 5))
    world.search(0)
    assert len(world.admitted) == len(set(world.admitted))


def searched(world, seeds, around=(), budget=99.0, **pace):
    clock, neighbours = (lambda: world.now), (lambda plan: list(around))
    return Search(world.admit, neighbours, clock, budget, 1, **pace).run(seeds)


@pytest.mark.parametrize("least", [4, 12])
def test_the_final_comparison_has_its_pairs_however_late_it_is(least):
    world = World(lambda plan: 0.01 * (1 + abs(plan)))
    found = searched(world, [9], [0], budget=8.0, least_pairs=least, hopeless=99.0)
    assert found.best == 0
    assert world.sampled[-2 * least :].count(0) == least


@pytest.mark.parametrize(("limit", "races"), [(1.5, False), (99.0, True)])
def test_who_is_hopeless_does_not_race(limit, races):
    world = World(lambda plan: 0.01 if plan else 0.04)
    searched(world, [1, 0], hopeless=limit)
    assert (world.sampled.count(0) > 2) is races


def test_slow_launches_are_sampled_less():
    NOISE[0] = 0.0

    def taken(samples):
        world = World(lambda plan: 0.01 * (1 + abs(plan) / 20))
        searched(world, [0, 15, 19], samples=samples)
        return len(world.sampled)

    assert taken(1) < taken(5)
