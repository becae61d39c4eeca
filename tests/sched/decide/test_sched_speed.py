"""The fit of times by sizes, and how a device's speed at an operation is learnt.

When this fails, predicted times are wrong, and so are the choices that rest on them.
"""

import math
import random
import sys
import threading

import pytest

from sparkle_drv.mesh.links.line import Line, fit
from sparkle_drv.sched.model.speed import WINDOW, Knot, Speed


def measured(line, sizes, each, noise, seed=1):
    chance = random.Random(seed)
    return [(n, line.at(n) * math.exp(chance.gauss(0, noise))) for n in sizes for _ in range(each)]


SIZES = (1e3, 1e5, 1e7, 1e9)


@pytest.mark.parametrize("line", [Line(1e-6, 1e-10), Line(1e-3, 1e-12), Line(0.0, 1e-9)])
def test_a_line_is_found_again(line):
    found = fit(measured(line, SIZES, 3, 0.02))
    for size in (3e3, 1e6, 2e8, 1e10):
        assert found.at(size) == pytest.approx(line.at(size), rel=0.06)


def test_exact_points_give_the_exact_line():
    line = Line(2e-5, 3e-10)
    found = fit(measured(line, SIZES, 1, 0.0))
    assert found.a == pytest.approx(line.a, rel=1e-6)
    assert found.b == pytest.approx(line.b, rel=1e-6)


def test_disturbed_measurements_do_not_carry_the_others_with_them():
    line = Line(1e-5, 1e-10)
    points = measured(line, SIZES, 5, 0.02)
    points[0] = (points[0][0], points[0][1] * 30)
    points[-1] = (points[-1][0], points[-1][1] * 30)
    found = fit(points)
    for size in SIZES:
        assert found.at(size) == pytest.approx(line.at(size), rel=0.1)


def test_no_part_is_negative_and_no_rate_is_infinite():
    falling = fit([(1e3, 2e-3), (1e6, 1e-3)])
    assert 1e-3 <= falling.a <= 2e-3
    assert falling.at(1e6) == pytest.approx(1.05 * falling.a)
    steep = fit([(1e3, 1e-9), (1e6, 1e-3)])
    assert steep.a == 0.0
    assert steep.b > 0


@pytest.mark.parametrize("points", [[], [(1e3, 0.0)], [(1e3, math.inf)], [(1e3, math.nan)]])
def test_nothing_to_fit(points):
    with pytest.raises(ValueError, match="positive times"):
        fit(points)


def test_one_size_is_a_rate():
    assert fit([(1e6, 1e-3), (1e6, 1.1e-3)]).at(2e6) == pytest.approx(2.1e-3, rel=0.05)


def test_a_bend_gets_knots_and_scatter_does_not():
    straight = Speed.of(measured(Line(1e-6, 1e-10), SIZES, 3, 0.03))
    assert not straight.knots

    def bent(n):
        return 1e-6 + n * 1e-10 * (4 if n < 1e6 else 1)

    chance = random.Random(3)
    points = [(n, bent(n) * math.exp(chance.gauss(0, 0.02))) for n in SIZES for _ in range(3)]
    speed = Speed.of(points)
    assert speed.knots
    for size in SIZES:
        assert speed.at(size) == pytest.approx(bent(size), rel=0.1)


def test_runs_correct_what_the_probes_did_not_see():
    speed = Speed.of(measured(Line(1e-6, 1e-10), SIZES, 3, 0.03))
    chance = random.Random(5)
    truth = 1.3 * speed.at(3e8)
    for _ in range(30):
        speed.observe(3e8, truth * math.exp(chance.gauss(0, 0.03)))
    assert speed.at(3e8) == pytest.approx(truth, rel=0.05)


def test_one_disturbed_run_changes_little():
    speed = Speed.of(measured(Line(1e-6, 1e-10), SIZES, 3, 0.03))
    before = speed.at(1e7)
    speed.observe(1e7, before)
    speed.observe(1e7, 10 * before)
    assert speed.at(1e7) == pytest.approx(before, rel=0.15)


@pytest.mark.parametrize("factor", [3.0, 1 / 3])
def test_a_change_of_pace_holds_for_all_sizes(factor):
    speed = Speed.of(measured(Line(1e-6, 1e-10), SIZES, 3, 0.03))
    before = {size: speed.at(size) for size in SIZES}
    chance = random.Random(7)
    for _ in range(WINDOW + 2):
        size = chance.choice((1e7, 1e9))
        speed.observe(size, factor * before[size] * math.exp(chance.gauss(0, 0.03)))
    assert speed.at(1e5) == pytest.approx(factor * before[1e5], rel=0.2)


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.inf, math.nan])
def test_what_is_no_time_teaches_nothing(seconds):
    speed = Speed.of(measured(Line(1e-6, 1e-10), SIZES, 3, 0.03))
    before = [speed.at(size) for size in SIZES]
    speed.observe(1e7, seconds)
    assert [speed.at(size) for size in SIZES] == before
    assert speed.runs == 0


@pytest.mark.parametrize(("noise", "shared"), [(0.02, False), (0.5, True)])
def test_a_size_is_judged_by_its_neighbours_where_runs_scatter_much(noise, shared):
    """Between two sizes that take 1.5 times as long as probed, and one that takes half as long."""
    chance = random.Random(9)
    speed = Speed.of(measured(Line(1e-6, 1e-10), SIZES, 3, noise))
    sizes = {2.0**20: 1.5, 2.0**22: 0.5, 2.0**24: 1.5}
    before = {size: speed.at(size) for size in sizes}
    for _ in range(30):
        for size, factor in sizes.items():
            exact = factor * before[size]
            speed.observe(size, exact * math.exp(chance.gauss(0, noise)))
    moved = speed.at(2.0**22) / before[2.0**22]
    assert moved > 0.6 if shared else moved == pytest.approx(0.5, rel=0.15)


def test_errors_beyond_twice_the_scatter_do_not_carry_the_others_with_them():
    speed = Speed.of(measured(Line(1e-6, 1e-10), SIZES, 3, 0.03))
    before = speed.at(1e7)
    for factor in [1.0, 1.02, 30.0, 0.98, 1.0, 1.01, 20.0, 0.99] * 3:
        speed.observe(1e7, factor * before)
    assert speed.at(1e7) == pytest.approx(before, rel=0.1)


def test_threads_may_learn_at_once():
    speed, wrong = Speed.of(measured(Line(1e-6, 1e-10), SIZES, 3, 0.03)), []

    def learn(seed):
        chance = random.Random(seed)
        try:
            for _ in range(3000):
                size = 2.0 ** chance.randrange(60)
                speed.observe(size, speed.at(size) * chance.uniform(0.5, 2))
        except RuntimeError as error:
            wrong.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=learn, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert wrong == []
    assert speed.runs > 3000


def test_a_prediction_does_not_depend_on_the_order_of_learning():
    """A journal keeps what was learnt, not when: its decisions would replay with other times."""
    learnt = {size: 1e-6 * size**0.9 * (1 + size % 7 / 10) for size in (3e5, 1e4, 2e6, 7e4)}
    speeds = []
    for sizes in (list(learnt), sorted(learnt)):
        speed = Speed(Line(1e-6, 1e-9))
        for size in sizes:
            at = round(math.log2(size))
            speed.knots[at] = Knot(math.log(learnt[size]), 1)
        speeds.append(speed)
    for far in (1.0, 3.0, 20.0, 1e12):
        assert speeds[0].at(far) == speeds[1].at(far)
