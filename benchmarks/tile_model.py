"""How far the tile model's plan of a product is from the best that a search finds, on the cpu.

Every product of benchmarks/cpu_peers.py, each instruction set of this CPU, one thread; b that may
change, and b that stays and may be packed once. A search races the model's plan, plans far from it
and plans around the best so far (as `bench.py tune` does), each verified before it is timed; a duel
with samples of its own says how far the model's plan is from the best found.

    python benchmarks/tile_model.py                              # all, in 8 minutes
    python benchmarks/tile_model.py --only 'f32 512x' --isa avx2 --budget-s 20

A whole run is kept under benchmarks/results/.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from _hop import hop

if "sparkle_drv" not in sys.modules:  # imported by a test: there is nowhere to go
    hop()

import argparse
import os
import re
import signal
from collections.abc import Sequence
from typing import Any

from _bench import env, results
from _bench.problems import FAILED, OK, REGRESSION, USAGE, UsageError
from _cpu_peers import cases, station
from _cpu_peers.report import machine, rows_a_line
from _tile_model import measure, report

import sparkle_drv as sp

HERE = Path(__file__).resolve().parent
BUDGET_S = 460.0
KINDS = ("fresh", "kept")


def sets() -> list[str]:
    """The instruction sets of this CPU, the best first."""
    with sp.open("cpu") as dev:
        return [isa for isa in measure.GFLOPS if isa in dev.info.features]


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="tile_model.py",
        description=(__doc__ or "").splitlines()[0],
        epilog="exit codes: 0 well, 1 a plan was wrong or the run was interrupted, 2 usage, 3 with "
        "--check: a line does not hold",
    )
    top.add_argument("--only", default="", metavar="REGEX", help="products whose names match")
    top.add_argument("--isa", default=",".join(sets()), help="default: %(default)s")
    top.add_argument("--b", default=",".join(KINDS), help="default: %(default)s")
    top.add_argument(
        "--budget-s", type=float, default=BUDGET_S, help="for all; default: %(default)g"
    )
    top.add_argument("--seed", type=int, default=1, help="of the operands and of the search")
    top.add_argument("--label", default="", help="a remark for the report, as 'a quiet machine'")
    top.add_argument("--json", type=Path, help="write everything there")
    top.add_argument("--md", type=Path, help="write the tables there")
    top.add_argument("--check", action="store_true", help="exit 3 when a line does not hold")
    return top


def _words(text: str, known: Sequence[str], option: str) -> list[str]:
    words = text.split(",")
    if strange := [word for word in words if word not in known]:
        raise UsageError(f"{option}: {strange[0]!r} is none of {', '.join(known)}")
    return words


def _end(signum: int, frame: object) -> None:
    raise KeyboardInterrupt  # what was measured is written


def main(argv: Sequence[str]) -> int:
    args = parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _end)
    try:
        todo = _todo(args)
    except UsageError as error:
        print(f"tile_model.py: {error}", file=sys.stderr)
        return USAGE
    whole = (args.only, args.isa, args.b) == ("", ",".join(sets()), ",".join(KINDS))
    return _write(_measured(args, todo), args, whole)


def _todo(args: argparse.Namespace) -> list[measure.Task]:
    """The rows to come. Raises UsageError."""
    isas, kinds = _words(args.isa, sets(), "--isa"), _words(args.b, KINDS, "--b")
    try:
        chosen = cases.select(args.only)
    except re.error as error:
        raise UsageError(f"--only: {error}") from None
    todo = measure.todo(chosen, isas, kinds)
    if not todo:
        raise UsageError(f"--only: no product has {args.only!r} in its name")
    return todo


def _measured(args: argparse.Namespace, todo: Sequence[measure.Task]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "schema": 1, "env": env.describe(), "label": args.label, "seed": args.seed,
        "budget_s": args.budget_s,
    }  # fmt: skip
    rows: list[dict[str, Any]] = []
    try:
        with station.pinned(sorted(os.sched_getaffinity(0))[-1:]):
            for row in measure.run(todo, args.budget_s, args.seed):
                rows.append(row)
                print(" | ".join(report.cells(row)), file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        pass  # what was measured is written
    shows = [line.as_json() for line in report.lines(rows)]
    return {**told, "rows": rows, "shows": shows, "interrupted": len(rows) < len(todo)}


def _write(told: dict[str, Any], args: argparse.Namespace, whole: bool) -> int:
    """Files, the text, and the exit code."""
    told = results.finite(told)
    text = report.markdown(told)
    folder = HERE / "results" / machine(told["env"])
    kept = whole and not told["interrupted"]
    if kept:
        folder.mkdir(parents=True, exist_ok=True)
    for path, content in (
        (args.json or (folder / "tile_model.json" if kept else None), rows_a_line(told)),
        (args.md or (folder / "tile_model.md" if kept else None), text),
    ):
        if path is not None:
            results.write_atomically(path, content)
    print(text)
    if told["interrupted"] or any(report.is_failed(row) for row in told["rows"]):
        return FAILED
    return REGRESSION if args.check and any(x["holds"] is False for x in told["shows"]) else OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
