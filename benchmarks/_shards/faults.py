"""Times calls with faults of devices: a device freezes or becomes slow, or some launches take very
long.

With a frozen or slow device, the time is compared with that of a plan that knew of the fault. With
slow launches, the time of the slowest per cent of runs is compared with the median. Pieces whose
result was written twice are counted.

Most figures come from a simulation of plans without threads (benchmarks/_inside/shards). Whole
calls also run on simulated devices with a virtual clock. These calls show that the real scheduler
behaves as that simulation.
"""

from __future__ import annotations

import math
import random
from statistics import mean, median
from typing import Any

import numpy as np
from _inside.shards.plan_quality import Counted, stalled_s, written
from _inside.shards.stop_cost import cost
from _mesh.figures import Figures, Wrong

import sparkle_drv as sp
from sparkle_drv.testing import sim
from sparkle_drv.testing.faults import Fault, Schedule
from sparkle_drv.testing.simulated import Rate, SimDevice, SimMachine

from .options import Options

SLOWER = 100
SHAPE = (1024, 64, 64)
STALLED = 1000
"""Number of plays of one plan, each with other launches that stall."""


def faults(options: Options) -> Figures:
    """Returns figures by name. Most are ratios: the seconds of a run with a fault divided by those
    of a plan that knew of the fault. Other figures count pieces that were started twice, dropped or
    written twice. The seconds are predicted or virtual. Raises Wrong for a wrong result.
    """
    found: Figures = {}
    for name, slower in (("freezes", math.inf), (f"becomes {SLOWER}x slower", SLOWER)):
        for ratio in (2, 50):
            costs = [cost(seed, ratio, slower) for seed in range(options.seeds)]
            said = f"a device {name}, seconds / who knew, {options.seeds} plans within {ratio}x"
            found[f"{said}, mean"], found[f"{said}, worst"] = mean(costs), max(costs)
    took = sorted(stalled_s((1, 1, 1, 1), seed) for seed in range(STALLED))
    name = f"1 % of launches stall 20x, p99 / median of {STALLED} plays of a plan, 4 equal devices"
    found[name] = took[math.ceil(0.99 * STALLED) - 1] / median(took)
    seeds, counted = max(1, options.seeds // 10), Counted()
    with written(counted):
        both = [_call(seed, counted) for seed in range(seeds)]
    for at, name in enumerate(("freezes", f"becomes {SLOWER}x slower")):
        costs, said = [its[at] for its in both], f"{name}, virtual seconds / who knew"
        found[f"a device {said}, {seeds} calls, mean"] = mean(costs)
        found[f"a device {said}, {seeds} calls, worst"] = max(costs)
    found["those calls"] = (
        f"{counted.calls} of {counted.pieces} pieces in all, each right; {counted.doubled} late "
        f"pieces started twice, {counted.dropped} results dropped"
    )
    found["pieces written twice"] = counted.twice
    return found


def _call(seed: int, counted: Counted) -> tuple[float, float]:
    """Returns two ratios of a call's virtual seconds to those of a plan that knew of the fault.

    In the first call a device freezes. In the second, which is otherwise the same, the device
    becomes slower.
    """
    chance = random.Random(seed)
    rates = [chance.uniform(1, 10) * 1e5 for _ in range(chance.randint(2, 5))]
    victim, at = chance.randrange(len(rates)), chance.randint(2, 8)
    whole_s, _, _ = _run(seed, rates, victim, None, counted)
    hang = Fault("job", at, "hang", recovery="none")
    froze_s, units, count = _run(seed, rates, victim, hang, counted)
    slow = Fault("job", at, "slow", factor=SLOWER, count=10**6)
    slow_s, _, _ = _run(seed, rates, victim, slow, counted)
    # The victim is the device with the fault, and `own` is its share of the work. The victim
    # freezes at the time `stop_s`. By then the victim has done `units` of the call's `count` units.
    own = rates[victim] / sum(rates)
    stop_s = units / count / own * whole_s
    left = whole_s - stop_s
    return (
        froze_s / (stop_s + left / (1 - own)),
        slow_s / (stop_s + left / (1 - own + own / SLOWER)),
    )


def _run(
    seed: int, rates: list[float], victim: int, fault: Fault | None, counted: Counted
) -> tuple[float, int, int]:
    """Runs two calls without faults, then one in which the device number `victim` has the fault
    `fault`.

    Returns the virtual seconds of the last call, the units that this device did in it, and the
    units of all devices. If `fault` is None, the last call has no fault, either.
    """
    devices = {
        f"sim:d{at}": SimDevice(f"sim:d{at}", {}, other=Rate(1e-5, rate))
        for at, rate in enumerate(rates)
    }
    m, n, k = SHAPE
    data = np.random.default_rng(seed)
    a, b = data.random((m, k), np.float32), data.random((k, n), np.float32)
    with (
        sim.on(SimMachine(devices, random.Random(seed), seed=seed)) as machine,
        sp.init(list(devices), profile=False) as ctx,
    ):
        try:
            for device in ctx.devices:
                device.default_queue.timeout_s = 1
            for _ in range(2):
                ctx.gemm(a, b, shards="each")
            if fault is not None:
                sim.apply(Schedule(seed, [fault]), ctx.devices[victim])
            begin = machine.clock.now_s
            got = ctx.gemm(a, b, shards="each")
            took_s = machine.clock.now_s - begin
            if not np.allclose(got, a @ b, rtol=1e-4):
                raise Wrong(f"ctx.gemm with seed {seed}: expected numpy's product, got another")
            plan: Any = ctx.last_plan
            counted.doubled += plan.done.doubled
            counted.dropped += plan.done.dropped
            return took_s, plan.done.units.get(f"sim:d{victim}", 0), plan.shares.count
        finally:
            for device in ctx.devices:
                sim.resume(device)
