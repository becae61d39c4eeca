"""How far is the tile model's plan of a product from the best that a search finds, on the cpu?

The script measures every product of benchmarks/cpu_peers.py with each instruction set of this CPU,
on one thread. The operand b either may change from call to call, or it is the same in all calls
and may be packed once. A search times the
model's plan, plans far from it and plans near the best so far (as `bench.py tune` does). Each plan
is verified before it is timed. A last comparison with new samples shows how far the model's plan is
from the best found.

    python benchmarks/tile_model.py                              # all, in 8 minutes
    python benchmarks/tile_model.py --only 'f32 512x' --isa avx2 --budget-s 20

A complete run is written to benchmarks/results/.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from _reexec import reexec

if "sparkle_drv" not in sys.modules:  # a test that imports this file must not restart Python
    reexec()

import argparse
import os
from collections.abc import Sequence
from typing import Any

from _bench.machine import env
from _bench.rows import results
from _console import output
from _console.problems import UsageError
from _cpu_peers import options, peer_process
from _tile_model import measure, report

import sparkle_drv as sp

BUDGET_S = 460.0
KINDS = ("fresh", "kept")


def sets() -> list[str]:
    """Returns the instruction sets of this CPU, the best first."""
    with sp.open("cpu") as dev:
        return [isa for isa in measure.GFLOPS if isa in dev.info.features]


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="tile_model.py",
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 1 a plan was wrong or the run was interrupted, 2 usage, 3 with "
        "--check: a line does not hold",
    )
    options.add_options(top, BUDGET_S)
    top.add_argument("--isa", default="", help="default: all that this CPU has")
    top.add_argument("--b", default=",".join(KINDS), help="default: %(default)s")
    return top


def main(argv: Sequence[str]) -> int:
    return options.guarded(parser().parse_args(argv), "tile_model.py", _main)


def _main(args: argparse.Namespace) -> int:
    told = results.finite(_measured(args, _todo(args)))
    whole = options.is_whole(args, parser(), ("isa", "b")) and not told["interrupted"]
    # with a smaller budget, the searches for tile plans end early
    whole &= args.budget_s >= BUDGET_S
    name = "tile_model" if whole else ""
    kept = options.keep(args, "tile_model.py", told, report.markdown(told), name)
    well = not told["interrupted"] and not any(report.is_failed(row) for row in told["rows"])
    return options.exit_code(args, well and kept, told["shows"])


def _todo(args: argparse.Namespace) -> list[measure.Task]:
    """Returns the rows to measure. Raises UsageError if the options name an unknown instruction set
    or kind of b, or if no product matches.
    """
    there = sets()
    isas = options.words(args.isa, there, "--isa") if args.isa else there
    kinds = options.words(args.b, KINDS, "--b")
    todo = measure.todo(options.select(args.only), isas, kinds)
    if not todo:
        raise UsageError(f"--only: no product has a name that matches {args.only!r}")
    return todo


def _measured(args: argparse.Namespace, todo: Sequence[measure.Task]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "schema": 1, "env": env.describe(), "label": args.label, "seed": args.seed,
        "budget_s": args.budget_s,
    }  # fmt: skip
    rows: list[dict[str, Any]] = []
    try:
        with peer_process.pinned(sorted(os.sched_getaffinity(0))[-1:]):
            for row in measure.run(todo, args.budget_s, args.seed):
                rows.append(row)
                print(" | ".join(report.cells(row)), file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        pass  # after Ctrl-C the returned document has the rows that were measured so far
    shows = [line.as_json() for line in report.lines(rows)]
    return {**told, "rows": rows, "shows": shows, "interrupted": len(rows) < len(todo)}


if __name__ == "__main__":
    sys.exit(output.guarded("tile_model.py", lambda: main(sys.argv[1:])))
