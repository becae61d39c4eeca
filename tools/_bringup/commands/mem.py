"""`bringup.py mem` writes and checks patterns over a given amount of memory."""

from __future__ import annotations

import argparse
import time
from typing import Any

from _console.problems import FAILED, OK, UsageError

from _bringup.benches.hw import Gpu
from _bringup.ladder import families
from _bringup.results import report
from _bringup.results.rung import Wrong
from _bringup.rungs import patterns
from _bringup.rungs.memory import HEAPS, check

from . import options

BLOCK = 8 << 20  # bytes of one buffer object


def add(sub: options.Subcommands) -> None:
    one = options.command(sub, "mem", run, "pattern tests of a card's memory by the CPU")
    one.add_argument("--heap", default=",".join(HEAPS), metavar="HEAP,...",
                     help=f"of {', '.join(HEAPS)} (default all)")  # fmt: skip
    one.add_argument("--size", type=options.size, default=64 << 20, metavar="BYTES",
                     help="size tested in each heap (default 64M)")  # fmt: skip
    one.add_argument("--passes", type=int, default=1, help="passes over all memory (default 1)")
    one.add_argument("--seed", type=int, default=1, help="seed of the random pattern")


def run(args: argparse.Namespace) -> int:
    family = families.of(args.device)
    if family.name == "api":
        raise UsageError(
            f"mem: expected an AMD card, got {args.device}; `ladder --only memory,mapped` tests "
            "the memory of that device"
        )
    heaps = [name.strip() for name in args.heap.split(",")]
    for name in heaps:
        if name not in HEAPS:
            raise UsageError(f"no heap {name!r}; expected one of {', '.join(HEAPS)}")
    if args.passes < 1 or args.seed < 0:
        raise UsageError("expected --passes of 1 or more and --seed of 0 or more")
    bench = family.bench(args.device)
    tested: list[dict[str, Any]] = []
    try:
        for name in heaps:
            tested.append(heap(bench, name, args))
            bad = tested[-1]["errors"]
            rate = tested[-1]["nbytes"] / 1e6 / max(tested[-1]["time_s"], 1e-9)
            if args.json != "-":
                print(f"{'FAIL' if bad else 'PASS'}    {name:8} {tested[-1]['nbytes'] >> 10} KiB, "
                      f"{tested[-1]['time_s']:.2f} s, {rate:.0f} MB/s tested")  # fmt: skip
                print("".join(f"        {one['text']}\n" for one in bad), end="")
    finally:
        bench.close()
    saved = not args.json or options.write_json(args.json, {
        "schema": report.SCHEMA, "device": args.device, "heaps": tested,
        "patterns": list(patterns.PATTERNS), "machine": report.machine(),
    })  # fmt: skip
    failed = not saved or any(one["errors"] for one in tested)
    return FAILED if failed else OK


def heap(bench: Any, name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Writes and checks patterns in one heap. Allocates all blocks before any is freed, so that no
    two share memory.
    """
    start, errors = time.monotonic(), []
    domain, flags = HEAPS[name]
    with Gpu(bench.node) as gpu:
        left, blocks = args.size, []
        while left > 0:
            blocks.append(gpu.create(min(left, BLOCK), domain, flags))
            left -= BLOCK
        for turn in range(args.passes):
            base = 0
            for block in blocks:
                try:
                    check(block, name, base=base or 1 << 32, seed=args.seed + turn)
                except Wrong as wrong:
                    errors.append({
                        "text": str(wrong), **wrong.facts, "block": f"{base:#x}", "pass": turn
                    })  # fmt: skip
                base += block.nbytes
    return {
        "heap": name, "nbytes": base, "passes": args.passes, "errors": errors,
        "time_s": time.monotonic() - start,
    }  # fmt: skip
