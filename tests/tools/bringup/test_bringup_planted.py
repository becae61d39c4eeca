"""Broken cards, one defect or two: the ladder names each at the rung where it is, by its cause.

When this fails, a broken card is blamed on the wrong part.
"""

import random

import pytest
from _bringup.benches import amdgpu as bench_amdgpu
from _bringup.benches.card import Emulated
from _bringup.ladder import families
from _bringup.ladder.runner import run_rungs
from _bringup.results.rung import FAIL
from planted_defects import PLANTED, machine

CHIPS = ["gfx1100", "gfx1036"]
RUNGS = families.AMDGPU
PLACE = {rung.name: n for n, rung in enumerate(RUNGS)}
PAIRS, SHORT = 24, 8  # all of them in make test-long
LIMIT_S = 2.5  # a fence that is not written is waited for


def first_failure(chip, *defects):
    """The first rung that fails of those up to the highest where something is wrong."""
    top = max(PLACE[defect.rung] for defect in defects)
    with machine(chip, *defects) as made:
        bench = bench_amdgpu.Bench(Emulated(chip, machine=made))
        try:
            for result in run_rungs(RUNGS[: top + 1], bench, timeout_s=LIMIT_S):
                if result.status == FAIL:
                    return result
        finally:
            bench.close()
    return None


def named(result, defect):
    """Is this the defect's rung, and its cause the likeliest?"""
    return result.name == defect.rung and defect.cause in result.causes[0]["text"]


@pytest.mark.unmeasured
@pytest.mark.parametrize("name", PLANTED)
def test_a_defect_is_named(name):
    defect = PLANTED[name]
    result = first_failure(CHIPS[len(name) % 2], defect)
    assert result is not None, "every rung holds"
    assert result.name == defect.rung, result
    assert defect.cause in result.causes[0]["text"], result.causes
    assert result.next, "no next command"


def pair(seed):
    """Two defects that one card can have."""
    rng = random.Random(seed)
    while True:
        one, other = rng.sample(list(PLANTED.values()), 2)
        if not one.breaks & other.breaks:
            return sorted((one, other), key=lambda defect: PLACE[defect.rung])


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "seed", [*range(SHORT), *(pytest.param(n, marks=pytest.mark.long) for n in range(SHORT, PAIRS))]
)
def test_of_two_defects_the_lower_is_named(seed):
    lower, upper = pair(seed)
    result = first_failure(CHIPS[seed % 2], lower, upper)
    assert result is not None, (lower.name, upper.name)
    assert named(result, lower) or named(result, upper), (lower.name, upper.name, result)
    assert result.name == lower.rung, (lower.name, upper.name, result)


def test_a_card_without_a_defect_holds():
    """The control: what is planted is what fails."""
    top = max(PLACE[defect.rung] for defect in PLANTED.values())
    with machine("gfx1100") as made:
        bench = bench_amdgpu.Bench(Emulated("gfx1100", machine=made))
        failed = [r for r in run_rungs(RUNGS[: top + 1], bench, timeout_s=5.0) if r.status == FAIL]
        bench.close()
    assert not failed


def test_thirty_defects_and_more_at_many_rungs():
    assert len(PLANTED) >= 30
    assert len({defect.rung for defect in PLANTED.values()}) >= 20
    assert {defect.rung for defect in PLANTED.values()} <= set(PLACE)


def test_two_that_cannot_be_on_one_card():
    with pytest.raises(ValueError, match="break one thing"):
        machine("gfx1100", PLANTED["bar-256"], PLANTED["bar-256"])
