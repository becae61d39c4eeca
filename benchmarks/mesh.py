"""How near the mesh comes to what is possible: plans of all_reduce, and real ones.

    python benchmarks/mesh.py [--sets 200] [--simulate] [--rounds 15] [--devices cpu:c0,cpu:c1]
                              [--json F]

Plans, on networks of simulated ports with 20 us of latency: the share of the lower bound
(sparkle_drv/mesh/collective/bound.py) for 64 MiB on equal ports, on two unequal sets (50, 50, 50,
12.5 and 50, 50, 25, 25 MB/s) and on --sets sets of 2 to 16 ports of 10 MB/s to 1 GB/s, drawn by
seed (sparkle_drv/testing/collectives.py `unequal`); 4 KiB by the messages that must follow one
another; 1 KiB to 256 MiB by the best algorithm alone; seconds that planning takes. Beside that
bound stands the known one of ports alone, n max(1 / b_min, 2 (p - 1) / sum b). --simulate runs each
plan on simulated devices, too: 4 MiB over ports of a sixteenth of the rate take what 64 MiB take.

Real: all_reduce of --devices by numpy's `a += b; b[:] = a` on the same memory, in turns: the median
of the ratios and the interval that holds the true median with 95 %.
Exit codes: 0, 1 a wrong sum, 2 usage, 3 no such device.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import mean, median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import numpy as np
from _console import output

import sparkle_drv as sp
from sparkle_drv.testing import planned
from sparkle_drv.testing.collectives import star, unequal

KIB, MIB = 1 << 10, 1 << 20
LATENCY_S = 20e-6
KNOWN = {
    "4 equal ports of 50 MB/s": [50e6] * 4,
    "8 equal ports of 1 GB/s": [1e9] * 8,
    "ports of 50, 50, 50, 12.5 MB/s": [50e6, 50e6, 50e6, 12.5e6],
    "ports of 50, 50, 25, 25 MB/s": [50e6, 50e6, 25e6, 25e6],
}


def plans(sets: int, simulate: bool) -> dict[str, float]:
    """The figures of plans."""
    found = {}
    for name, rates in KNOWN.items():
        for what, value in _reached(rates, simulate).items():
            found[f"{what}, 64 MiB, {name}"] = value
    drawn = [unequal(seed) for seed in range(sets)]
    reached = [_reached([one.ports[p].send for p in one.places], simulate) for one in drawn]
    for what in reached[0] if reached else ():
        values = [one[what] for one in reached]
        worst = max if what == "seconds to plan" else min
        found[f"{what}, 64 MiB, {sets} unequal sets, mean"] = mean(values)
        found[f"{what}, 64 MiB, {sets} unequal sets, worst"] = worst(values)
    found["predicted / messages that must follow, 4 KiB, 2 to 16 places, worst"] = max(
        planned.all_reduce_s(star([1e9] * p, LATENCY_S), 4 * KIB) / _least_s(p)
        for p in range(2, 17)
    )
    found["predicted / best algorithm alone, 1 KiB to 256 MiB, worst"] = max(
        planned.all_reduce_over_best(unequal(seed, most=5), KIB << shift)
        for seed in range(3)
        for shift in range(0, 19, 3)
    )
    return found


def _reached(rates: list[float], simulate: bool) -> dict[str, float]:
    """Bounds of 64 MiB by seconds."""
    network = star(rates, LATENCY_S)
    begin = time.perf_counter()
    plan = planned.all_reduce(network, 64 * MIB)
    spent_s = time.perf_counter() - begin
    known_s = planned.known_bound_s(rates, 64 * MIB)
    found = {
        "bound / predicted": plan.bound_s / plan.predicted_s,
        "known bound / predicted": known_s / plan.predicted_s,
        "seconds to plan": spent_s,
    }
    if simulate:
        slow = star([rate / 16 for rate in rates], LATENCY_S)
        found["known bound / simulated"] = (
            known_s / planned.all_reduce_simulated_s(slow, 4 * MIB)[0]
        )
    return found


def _least_s(places: int) -> float:
    """log2 p messages of 4 KiB at 1 GB/s in turn; log2 p rounded down, + 2, where p is no power of
    two.
    """
    rounds = int(math.log2(places))
    return (rounds if places == 1 << rounds else rounds + 2) * (LATENCY_S + 4 * KIB / 1e9)


def real(uris: list[str], rounds: int) -> dict[str, str]:
    """all_reduce by numpy, in turns. SystemExit for a wrong sum."""
    found = {}
    with sp.init(uris, profile=False) as ctx, ctx.create_mesh(uris) as mesh:
        for nbytes in (4 * MIB, 64 * MIB):
            chance = np.random.default_rng(1)
            host = chance.standard_normal((len(uris), nbytes // 4)).astype(np.float32)
            ratios = [_ratio(ctx, mesh, host, at % 2 == 1) for at in range(rounds + 1)]
            low, middle, high = _interval(ratios[1:])
            name = f"all_reduce / numpy, {nbytes // MIB} MiB, {' '.join(uris)}"
            found[name] = f"{middle:.2f} [{low:.2f}, {high:.2f}]; {mesh.plan}"
    return found


def _ratio(ctx: sp.Context, mesh: sp.Mesh, host: np.ndarray, reverse: bool) -> float:
    mine, taken = host.copy(), {}
    with ExitStack() as stack:
        pairs = zip(ctx.devices, host, strict=True)
        arrays = [stack.enter_context(device.array(row)) for device, row in pairs]
        ways = {"mesh": partial(mesh.all_reduce, arrays), "numpy": partial(_numpy, mine)}
        for name in sorted(ways, reverse=reverse):
            begin = time.perf_counter()
            ways[name]()
            taken[name] = time.perf_counter() - begin
        for array in arrays:
            if not np.allclose(array.numpy(), mine[0], rtol=1e-5, atol=1e-5):
                raise SystemExit(f"{array.device.uri}: the sum is wrong; nothing is timed")
    return taken["mesh"] / taken["numpy"]


def _numpy(rows: np.ndarray) -> None:
    for row in rows[1:]:
        rows[0] += row
    for row in rows[1:]:
        row[:] = rows[0]


def _interval(values: list[float]) -> tuple[float, float, float]:
    """The median, within order statistics that hold the true one with 95 %."""
    ordered, n = sorted(values), len(values)
    below = max(0, math.floor(n / 2 - 0.98 * math.sqrt(n)))
    return ordered[below], median(ordered), ordered[n - 1 - below]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 1 a wrong sum, 2 usage, 3 no such device",
    )
    parser.add_argument("--sets", type=int, default=200, help="unequal sets of ports")
    parser.add_argument("--simulate", action="store_true", help="run their plans, too: minutes")
    parser.add_argument("--rounds", type=int, default=15, help="of real ones")
    parser.add_argument("--devices", default="cpu:c0,cpu:c1", help="URIs separated by commas")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    args = parser.parse_args()
    if args.sets < 0 or args.rounds < 1:
        parser.error("--sets: expected 0 or more, --rounds: 1 or more")
    try:
        measured = real(args.devices.split(","), args.rounds)
    except (sp.DeviceNotFound, ValueError) as error:
        print(error, file=sys.stderr)
        return 3
    found = {**measured, **plans(args.sets, args.simulate)}
    for name, value in found.items():
        print(f"{name}: {value if isinstance(value, str) else f'{value:.3f}'}")
    if args.json is not None and not output.save("mesh.py", args.json, json.dumps(found)):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
