"""How well does the scheduler choose devices? On simulated machines whose truth is known, and here.

    python benchmarks/juggling.py [--machines 200] [--devices cpu,egl:0] [--calls 100]
                                   [--rounds 300] [--rules] [--json F]

Simulated: mean regret after the start-up probes and after --calls calls. Regret is the true time of
the chosen device over that of the best, minus one. Two more figures: how much faster the scheduler
is than the best single device, and the regret 20 calls after the busiest device became three times
slower.

Real: products of 16 to 1024 cubed. The truth is the median of interleaved runs on each device.
* The regret of the choice after the probes.
* The 95th percentile of the regrets of further calls, after --calls calls. Trials count, too: calls
  on a device that looks slower, to learn its speed. As many runs of the operation itself, on the
  device that looks fastest, are mixed with these calls at random.
* The error |log(predicted / measured)|: each call's plan predicts before the call; `measured` is
  the median of these runs. The figure is the median of a size's calls, and of all sizes.
* The machine's own variation for comparison: |log(a / b)|, where a is the median of every other one
  of these runs and b the median of the rest.

Cost: the time of a call of a Context beyond that of `ops` on the same device. The Context has seen
the shape before. Both use `out` if the operation has it, and take turns. The figure is the median,
with the interval that holds the true median with 95 %.

Trace: the share of a loop of mixed calls that the trace's spans cover, by time. One figure counts
all spans, the other leaves out spans of whole calls. The document must be valid, and its replay
must decide the same.

Rules (with --rules): the regret and the cost without each of the scheduler's rules in turn, on
--machines simulated machines (benchmarks/_inside/rule_ablation.py).

Exit codes: 0 well, 1 a wrong trace, 2 usage, 3 no such device.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import numpy as np
from _console import output
from _inside import rule_ablation
from _inside.juggler import ProductCaller
from _juggling.real import real

import sparkle_drv as sp
from sparkle_drv import ops
from sparkle_drv.telemetry import chrome
from sparkle_drv.telemetry.trace import Trace


def simulated(machines: int, calls: int) -> dict[str, float]:
    """Returns figures of the scheduler on simulated machines, by name. Each is a mean over all
    machines.
    """
    callers = [ProductCaller(seed) for seed in range(machines)]
    return {
        "regret after the probes": mean(c.regret(100) for c in callers),
        "faster than the best single device": mean(c.faster_than_one(calls) for c in callers),
        f"regret after {calls} calls": mean(c.regret(100) for c in callers),
        "regret 20 calls after a 3x slow-down": mean(c.slow_down(3.0, 20) for c in callers),
    }


def cost(rounds: int) -> dict[str, str]:
    """Measures how much longer a call through a Context takes than by `ops`, on the cpu device.
    Calls that the Context measures, or for which it decides anew, count, too.
    """
    chance = np.random.default_rng(7)
    a, b, c = chance.standard_normal((3, 16, 16)).astype(np.float32)
    large, other, whole = chance.standard_normal((3, 512, 512)).astype(np.float32)
    x, y = chance.standard_normal((2, 1, 8, 8, 8)).astype(np.float32)
    w = chance.standard_normal((8, 8, 3, 3)).astype(np.float32)
    cases: list[tuple[str, str, int, tuple[Any, ...], dict[str, Any]]] = [
        ("16 cubed", "gemm", 200, (a, b, c), {}),
        ("16 cubed, a bias", "gemm", 200, (a, b, c), {"bias": a[0]}),
        ("conv2d of 8x8x8", "conv2d", 100, (x, w, None, y), {"padding": 1}),
        ("map of 16x16", "map", 200, ("relu(x) + s*y", a, b), {"s": 2.0, "out": c}),
        ("reduce of 16x16", "reduce", 20, (a, "max"), {}),
        ("512 cubed", "gemm", 1, (large, other, whole), {}),
    ]
    found = {}
    with sp.init(["cpu"], profile=False) as ctx:
        for name, op, calls, given, named in cases:
            placed = partial(getattr(ctx, op), *given, **named)
            plain = partial(getattr(ops, op), ctx.device, *given, **named)
            for _ in range(6):  # a Context measures the first six calls of a shape
                got = np.array(placed())
            if not np.array_equal(got, plain()):
                raise SystemExit(
                    f"{name}: the results of the Context and of ops differ; nothing is timed"
                )
            pairs = [_pair((placed, plain), calls, i % 2 == 1) for i in range(rounds)]
            if calls > 1:
                values, unit = [1e6 * (ours - theirs) for ours, theirs in pairs], "us"
            else:
                values, unit = [100 * (ours / theirs - 1) for ours, theirs in pairs], "%"
            low, middle, high = _interval(values)
            found[name] = f"{middle:+.2f} {unit} [{low:+.2f}, {high:+.2f}]"
    return found


def keeping(rounds: int) -> dict[str, str]:
    """Measures the us by which a product of 16 cubed takes longer through a Context than by `ops`.
    Measures with all of the scheduler's rules, then without each rule by which it reuses plans.
    """

    def figures() -> str:
        a, b, out = np.random.default_rng(7).standard_normal((3, 16, 16)).astype(np.float32)
        with sp.init(["cpu"], profile=False) as ctx:
            ways = partial(ctx.gemm, a, b, out), partial(ops.gemm, ctx.device, a, b, out)
            for _ in range(6):
                ways[0]()
            pairs = [_pair(ways, 200, i % 2 == 1) for i in range(rounds)]
        return f"{1e6 * median(ours - plain for ours, plain in pairs):+.2f} us"

    return rule_ablation.without(rule_ablation.KEEPING, figures)


def traced(uris: list[str], loops: int = 20) -> dict[str, float]:
    """Returns the shares of a loop's time that the spans of its trace cover. Raises SystemExit for
    a wrong trace.
    """
    chance = np.random.default_rng(7)
    pairs = [chance.standard_normal((2, n, n)).astype(np.float32) for n in (16, 64, 128, 256)]
    x = chance.standard_normal((1, 16, 28, 28)).astype(np.float32)
    w = chance.standard_normal((16, 16, 3, 3)).astype(np.float32)

    def loop(ctx: sp.Context) -> None:
        for pair in pairs:
            ctx.gemm(*pair)
        ctx.conv2d(x, w, padding=1)
        ctx.map("relu(x) + y", *pairs[2])
        ctx.reduce(pairs[2][0])
        there = ctx.array((64, 64), np.float32, device=uris[-1]).fill(pairs[1][0])
        ctx.gemm(there, pairs[1][1]).numpy()

    with sp.init(uris, profile=False) as ctx, tempfile.TemporaryDirectory() as folder:
        loop(ctx)
        with ctx.trace("mixed calls") as trace:
            for _ in range(loops):
                loop(ctx)
        path = Path(folder, "trace.json")
        ctx.save_trace(path)
        wrong = chrome.problems(json.loads(path.read_text()))
        if wrong or not all(one.same for one in sp.replay(path)):
            raise SystemExit(f"the trace is wrong: {wrong[:1] or 'its replay decides otherwise'}")
    parts = [span for span in trace.spans if span.track != ("host", "calls")]
    inner = Trace(trace.name, trace.begin_ns, trace.end_ns, parts)
    return {"covered by spans": trace.covered(), "without whole calls": inner.covered()}


def _pair(ways: tuple[Callable[[], object], ...], calls: int, turned: bool) -> tuple[float, float]:
    """Times two functions, one after the other: the second one first if `turned`. Returns the
    seconds of one call of each function.
    """
    taken = [0.0, 0.0]
    for i in (1, 0) if turned else (0, 1):
        way = ways[i]
        begin = time.perf_counter()
        for _ in range(calls):
            way()
        taken[i] = (time.perf_counter() - begin) / calls
    return taken[0], taken[1]


def _interval(values: list[float]) -> tuple[float, float, float]:
    """Returns (low, median, high). In the sorted list of the n values, low and high stand about
    sqrt(n) positions before and after the median: they bound its 95 % interval.
    """
    ranked, n = sorted(values), len(values)
    beside = 0.98 * math.sqrt(n)
    low, high = int(max(0, n / 2 - beside)), int(min(n - 1, n / 2 + beside))
    return ranked[low], median(ranked), ranked[high]


def main(argv: list[str] | None = None) -> int:
    """Measures the parts that the arguments select, and prints their figures. Returns the exit
    code.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--machines", type=int, default=200, help="simulated machines; 0: none")
    parser.add_argument("--devices", default="cpu,egl:0", help="URIs of the real part; '': none")
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=300, help="rounds of the cost; 0: none")
    parser.add_argument("--rules", action="store_true", help="also the worth of each rule")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(argv)
    parts: dict[str, Mapping[str, float | str]] = {}
    try:
        if given.machines > 0:
            parts[f"{given.machines} simulated machines"] = simulated(given.machines, given.calls)
        if given.devices:
            parts[given.devices] = real(given.devices.split(","), given.calls)
        if given.devices:
            parts["trace of mixed calls"] = traced(given.devices.split(","))
        if given.rounds > 0:
            parts["a call of a Context beyond that of ops"] = cost(given.rounds)
        if given.rules:
            parts["regret after calls"] = rule_ablation.predicting(given.machines, given.calls)
            parts["regret after wrong probes"] = rule_ablation.exploring(given.machines // 4, 1000)
            parts["a product of 16 cubed beyond ops"] = keeping(given.rounds)
    except sp.DeviceNotFound as error:
        print(error, file=sys.stderr)
        return 3
    for title, figures in parts.items():
        print(title)
        for name, value in figures.items():
            style = "" if isinstance(value, str) else ".3f" if "log" in name else ".2%"
            print(f"    {name}: {value:{style}}")
    if given.json:
        text = json.dumps(parts, indent=1) + "\n"
        return 0 if output.save("juggling.py", given.json, text) else 1
    return 0


if __name__ == "__main__":
    sys.exit(output.guarded("juggling.py", main))
