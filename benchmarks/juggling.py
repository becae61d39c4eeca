"""How well the scheduler picks devices: on simulated machines whose truth is known, and on this.

    python benchmarks/juggling.py [--machines 200] [--devices cpu,egl:0] [--calls 100] [--json F]

Simulated: mean regret after the start-up probes and after --calls calls (regret: the true time of
the chosen device over that of the best, less one), how much faster than the best single device,
and the regret left 20 calls after the busiest device has become three times slower.

Real: products of 16 to 1024 cubed. The truth is the median of interleaved runs on each device. The
regret of what is chosen after the probes and after --calls calls; and of the plans after those,
|log(predicted / measured)|, the latter being the median of runs that follow on the same device,
all sizes in turns.
Exit codes: 0, 2 usage, 3 no such device.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

import sparkle_drv as sp
from sparkle_drv import ops
from sparkle_drv.testing.juggler import Caller

SIDES = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
ROUNDS = 7


def simulated(machines: int, calls: int) -> dict[str, float]:
    """The figures of the simulated part, means over all machines."""
    callers = [Caller(seed) for seed in range(machines)]
    return {
        "regret after the probes": mean(c.regret(100) for c in callers),
        "faster than the best single device": mean(c.faster_than_one(calls) for c in callers),
        f"regret after {calls} calls": mean(c.regret(100) for c in callers),
        "regret 20 calls after a 3x slow-down": mean(c.slow_down(3.0, 20) for c in callers),
    }


def real(uris: list[str], calls: int) -> dict[str, float]:
    """The figures of this machine."""
    chance = np.random.default_rng(7)
    pairs = {n: chance.standard_normal((2, n, n)).astype(np.float32) for n in SIDES}
    with sp.init(uris, profile=False) as ctx:
        truth = {n: _truth(ctx, pairs[n]) for n in SIDES}
        after_probes = [_regret(ctx, pairs[n], truth[n]) for n in SIDES]
        for i in range(calls):
            n = SIDES[int(chance.integers(len(SIDES)))] if i >= len(SIDES) else SIDES[i]
            ctx.gemm(*pairs[n])
        errors = _errors(ctx, pairs, chance)
        truth = {n: _truth(ctx, pairs[n]) for n in SIDES}
        regrets = sorted(_regret(ctx, pairs[n], truth[n]) for n in SIDES)
    return {
        "regret after the probes": mean(after_probes),
        f"regret after {calls} calls, 95th percentile": regrets[math.ceil(0.95 * len(SIDES)) - 1],
        "median |log(predicted / measured)|": median(errors),
    }


def _truth(ctx: sp.Context, pair: np.ndarray) -> dict[str, float]:
    """Median seconds on each device, interleaved; the result is compared before it is timed."""
    a, b = pair
    want = a.astype(np.float64) @ b
    scale = float(np.sqrt(np.mean(want**2)))
    for device in ctx.devices:
        worst = float(np.abs(ops.gemm(device, a, b) - want).max()) / scale
        if worst > 1e-4:
            raise SystemExit(f"{device.uri}: wrong by {worst:.2g} of the rms; nothing is timed")
    times: dict[str, list[float]] = {device.uri: [] for device in ctx.devices}
    for _ in range(ROUNDS):
        for device in ctx.devices:
            begin = time.perf_counter()
            ops.gemm(device, a, b)
            times[device.uri].append(time.perf_counter() - begin)
    return {uri: median(all_of) for uri, all_of in times.items()}


def _regret(ctx: sp.Context, pair: np.ndarray, truth: dict[str, float]) -> float:
    """By how much what is chosen now takes longer than the best."""
    ctx.gemm(*pair)
    plan = ctx.last_plan
    assert plan is not None
    return truth[plan.device] / min(truth.values()) - 1


def _errors(
    ctx: sp.Context, pairs: dict[int, np.ndarray], chance: np.random.Generator
) -> list[float]:
    """|log(predicted / measured)| of each size: its plan as it is now, and the median of runs of
    the operation on the plan's device; of all sizes in turns at random, as the calls were.
    """
    devices = {device.uri: device for device in ctx.devices}
    plans: dict[int, Any] = {}
    for n, pair in pairs.items():
        ctx.gemm(*pair)
        plans[n] = ctx.last_plan
    times: dict[int, list[float]] = {n: [] for n in pairs}
    for n in chance.permutation(list(pairs) * ROUNDS):
        device = devices[plans[n].device]
        begin = time.perf_counter()
        ops.gemm(device, *pairs[n])
        times[n].append(time.perf_counter() - begin)
    return [abs(math.log(plans[n].predicted_s / median(times[n]))) for n in pairs]


def main(argv: list[str] | None = None) -> int:
    """Print both parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--machines", type=int, default=200, help="simulated ones; 0: none")
    parser.add_argument("--devices", default="cpu,egl:0", help="URIs of the real part; '': none")
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(argv)
    parts: dict[str, dict[str, float]] = {}
    try:
        if given.machines > 0:
            parts[f"{given.machines} simulated machines"] = simulated(given.machines, given.calls)
        if given.devices:
            parts[given.devices] = real(given.devices.split(","), given.calls)
    except sp.DeviceNotFound as error:
        print(error, file=sys.stderr)
        return 3
    for title, figures in parts.items():
        print(title)
        for name, value in figures.items():
            print(f"    {name}: {value:.2%}" if "log" not in name else f"    {name}: {value:.3f}")
    if given.json:
        given.json.write_text(json.dumps(parts, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
