"""Shows what each rule of the scheduler is worth: figures with all rules, and without one of them.

benchmarks/juggling.py prints these figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from statistics import mean
from unittest import mock

from sparkle_drv.sched.decide import kept_plan
from sparkle_drv.sched.model import costs, speed
from sparkle_drv.testing import simulated

from . import juggler

Values = Mapping[tuple[object, str], object]
NONE: Values = {}
LARGE = 1e9
PREDICTING: dict[str, Values] = {
    "": NONE,
    "corrections of the line": {(speed.Speed, "_correction"): lambda *_: 0.0},
    "BEND, neighbours count less": {(speed, "BEND"): 0.0},
    "REACH, of neighbours": {(speed, "REACH"): 60},
    "CLIP, of errors": {(speed, "CLIP"): LARGE},
    "scatter that runs correct": {(speed.Speed, "_scatter"): lambda *_: None},
    "LEAST_CHANGE, pace": {(speed, "LEAST_CHANGE"): LARGE},
    "CHANGE, by the scatter": {(speed, "CHANGE"): 0.0},
}
"""For rules that predict times: values that disable them."""
KEEPING: dict[str, Values] = {
    "": NONE,
    "kept plans": {
        (kept_plan.KeptPlan, "due"): True,
        (kept_plan.KeptPlan, "rests"): lambda _: None,
    },
    "SAMPLE_S, short calls": {(kept_plan, "SAMPLE_S"): 0.0},
    "SAMPLE, any calls": {(kept_plan, "SAMPLE_S"): 0.0, (kept_plan, "SAMPLE"): 1},
}
"""The same for rules that keep plans."""


def predicting(machines: int, calls: int) -> dict[str, str]:
    """Returns texts with the mean regret, with all rules that predict times and without each. A
    text has three situations: after `calls` calls; after `calls` calls of which a tenth are
    disturbed; 20 calls after the busiest device became three times slower.
    """

    def figures() -> str:
        callers = [juggler.ProductCaller(seed) for seed in range(machines)]
        for caller in callers:
            caller.regret(calls, learn=True)
        quiet, slowed = (
            mean(c.regret(100) for c in callers), mean(c.slow_down(3.0, 20) for c in callers)
        )  # fmt: skip
        with mock.patch.object(simulated.SimMachine, "run", _disturbed):
            callers = [juggler.ProductCaller(seed) for seed in range(machines)]
            for caller in callers:
                caller.regret(calls, learn=True)
            loud = mean(c.regret(100) for c in callers)
        return f"{quiet:.3%}, disturbed {loud:.3%}, slowed {slowed:.3%}"

    return without(PREDICTING, figures)


def exploring(machines: int, calls: int) -> dict[str, str]:
    """Returns texts with the mean regret after `calls` calls, with and without trials of devices
    that look slower. The best device was 20 times slower when it was probed.
    """

    def figures() -> str:
        regrets = []
        for seed in range(machines):
            caller = juggler.ProductCaller(seed)
            used = [caller.call(learn=True).device for _ in range(50)]
            best = caller.machine.devices[max(sorted(set(used)), key=used.count)]
            best.slower = 20.0
            caller.costs = juggler.probe(caller.machine)
            best.slower = 1.0
            caller.regret(calls, learn=True)
            # no trials: the scheduler takes the device that it believes best
            caller.costs.spare_s = -LARGE
            regrets.append(caller.regret(100))
        return f"{mean(regrets):.1%}"

    return without({"": NONE, "EXPLORE": {(costs, "EXPLORE"): 0.0}}, figures)


def without(rules: dict[str, Values], figures: Callable[[], str]) -> dict[str, str]:
    """Calls `figures` with all of the scheduler's rules, then without one rule at a time. Returns
    the texts of these calls. `rules` has, by name, the values that disable a rule.
    """
    rows = {}
    for name, values in rules.items():
        with ExitStack() as stack:
            for (owner, attribute), value in values.items():
                stack.enter_context(mock.patch.object(owner, attribute, value))
            rows[f"without {name}" if name else "with all rules"] = figures()
    return rows


_run = simulated.SimMachine.run


def _disturbed(machine: simulated.SimMachine, uri: str, op: str, size: float) -> float:
    """Runs the operation, and makes one run in ten up to five times as long."""
    seconds = _run(machine, uri, op, size)
    chance = machine.random
    return seconds * (1 + 4 * chance.random()) if chance.random() < 0.1 else seconds
