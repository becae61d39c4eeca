"""Measures the scheduler on this machine's devices, for juggling.py: its regret, and the errors of
its predictions.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

import numpy as np

import sparkle_drv as sp
from sparkle_drv import ops

SIDES = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
ROUNDS = 7
RUNS = 41
"""Runs of each size for the errors of predictions. Short runs differ by half from one
to the next."""


def real(uris: list[str], calls: int) -> dict[str, float]:
    """Returns figures of calls on this machine's devices, by name: the scheduler's regrets, the
    errors of its predictions, and how much the measured times themselves vary.
    """
    chance = np.random.default_rng(7)
    pairs = {n: chance.standard_normal((2, n, n)).astype(np.float32) for n in SIDES}
    with sp.init(uris, profile=False) as ctx:
        truth = {n: _truth(ctx, pairs[n]) for n in SIDES}
        after_probes = [_regret(ctx, pairs[n], truth[n]) for n in SIDES]
        for i in range(calls):
            n = SIDES[int(chance.integers(len(SIDES)))] if i >= len(SIDES) else SIDES[i]
            ctx.gemm(*pairs[n])
        after = _after(ctx, pairs, chance)
        truth = {n: _truth(ctx, pairs[n]) for n in SIDES}
        regrets = sorted(_over(truth[n], uri) for n in SIDES for uri in after[n].chosen)
    return {
        "regret after the probes": mean(after_probes),
        f"regret after {calls} calls, 95th percentile": regrets[math.ceil(0.95 * len(regrets)) - 1],
        "median |log(predicted / measured)|": median(a.error for a in after.values()),
        "median |log| between halves of what was measured": median(a.apart for a in after.values()),
    }


def _truth(ctx: sp.Context, pair: np.ndarray) -> dict[str, float]:
    """Returns the median seconds of the product of `pair` by device. The devices are timed in
    turns, after the result of each was verified.
    """
    a, b = pair
    want = a.astype(np.float64) @ b
    scale = float(np.sqrt(np.mean(want**2)))
    for device in ctx.devices:
        worst = float(np.abs(ops.gemm(device, a, b) - want).max()) / scale
        if worst > 1e-4:
            raise SystemExit(
                f"{device.uri}: the result is wrong by {worst:.2g} of its rms; nothing is timed"
            )
    times: dict[str, list[float]] = {device.uri: [] for device in ctx.devices}
    for _ in range(ROUNDS):
        for device in ctx.devices:
            begin = time.perf_counter()
            ops.gemm(device, a, b)
            times[device.uri].append(time.perf_counter() - begin)
    return {uri: median(all_of) for uri, all_of in times.items()}


def _regret(ctx: sp.Context, pair: np.ndarray, truth: dict[str, float]) -> float:
    """Makes a call, and returns how much longer the chosen device takes than the best one. 0: the
    scheduler chose the best; 0.1: the chosen device takes 10 % longer.
    """
    ctx.gemm(*pair)
    # last_plan is the plan of the gemm above, because no graph has run
    plan: Any = ctx.last_plan
    return _over(truth, plan.device)


def _over(truth: dict[str, float], uri: str) -> float:
    return truth[uri] / min(truth.values()) - 1


@dataclass
class After:
    """The measurements of products of one size, made after the calls from which the scheduler
    learns.
    """

    chosen: list[str]
    """URIs of the devices of the calls."""
    error: float
    """Median |log| of the plans' predictions over the median run of the operation."""
    apart: float
    """|log| of the median of every other run over the median of the rest: the machine's own
    variation."""


def _after(
    ctx: sp.Context, pairs: dict[int, np.ndarray], chance: np.random.Generator
) -> dict[int, After]:
    devices = {device.uri: device for device in ctx.devices}
    plans: dict[int, list[Any]] = {n: [] for n in pairs}
    times: dict[int, list[float]] = {n: [] for n in pairs}
    usual: dict[int, str] = {}
    for n in pairs:
        while n not in usual:
            ctx.gemm(*pairs[n])
            plan: Any = ctx.last_plan
            plans[n].append(plan)
            if not plan.explores:
                usual[n] = plan.device
    turns = [(n, called) for n in pairs for called in (False, True) for _ in range(RUNS)]
    for n, called in (turns[i] for i in chance.permutation(len(turns))):
        if called:
            ctx.gemm(*pairs[n])
            plans[n].append(ctx.last_plan)
        else:
            begin = time.perf_counter()
            ops.gemm(devices[usual[n]], *pairs[n])
            times[n].append(time.perf_counter() - begin)
    found = {}
    for n, taken in times.items():
        middle = median(taken)
        said = [p.predicted_s for p in plans[n] if p.device == usual[n]]
        found[n] = After(
            [p.device for p in plans[n]],
            median(abs(math.log(s / middle)) for s in said),
            abs(math.log(median(taken[::2]) / median(taken[1::2]))),
        )
    return found
