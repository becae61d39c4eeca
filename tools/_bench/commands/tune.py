"""The tune command: how far is the plan of ops' tile model from the best that a search finds?"""

from __future__ import annotations

import argparse
import json
import sys

from _console import output, table
from _console.problems import FAILED

from _bench.jobs import catalog
from _bench.measure import devices
from _bench.report import writers
from _bench.tune import report, tune
from sparkle_drv.errors import SparkleError

from . import options

BUDGET_S, QUICK_S = 60.0, 12.0


def add(sub: options.Subcommands) -> None:
    made = options.command(
        sub,
        "tune",
        tune_command,
        "search around the tile model's plan, print its distance from the best, keep the best",
    )
    made.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help='"gemm_f32", "conv2d", "reduce_sum_f32"; default gemm and conv2d at the sizes of run',
    )
    options.add_axes(made)
    options.add_device(made)
    made.add_argument("--quick", action="store_true", help=f"{QUICK_S:g} s per shape")
    made.add_argument(
        "--budget",
        type=options.positive,
        metavar="S",
        help=f"seconds per shape (default {BUDGET_S:g})",
    )
    made.add_argument(
        "--busy", action="store_true", help="keep the found plan even if others use the machine"
    )
    options.add_seed(made)
    options.add_file(made, "json")


def tune_command(args: argparse.Namespace) -> int:
    writers.Outputs(args.json).check()
    seed = options.seed(args)
    budget = args.budget or (QUICK_S if args.quick else BUDGET_S)
    planned = []
    for uri in devices.resolve(args.device):
        with devices.opened(uri) as device:
            known = catalog.manifest(device)
            planned.append((uri, tune.jobs_for(args.names, args.axes, device.info, known, seed)))
    visit = tune.Visit(tune.Settings(seed, budget, args.busy), [])

    def text() -> str:
        document = report.document(visit.rows, seed, visit.interrupted)
        return json.dumps(document, indent=1) + "\n"

    if args.json:
        visit.after = lambda: output.so_far(args.json, text())
    try:
        for uri, jobs in planned:
            with devices.opened(uri) as device:
                visit.device(device, jobs)
    except KeyboardInterrupt:
        visit.interrupted = True
    except SparkleError as error:  # the device accepts no more work; its row gives the reason
        print(f"bench.py: the run ends here: {error}", file=sys.stderr)
    print(f"# seed {seed}; {budget:g} s per shape")
    table.show(report.COLUMNS, [report.cells(row) for row in visit.rows])
    code = report.exit_code(visit.rows, visit.interrupted)
    saved = not args.json or output.save("bench.py", args.json, text())
    return code if saved else FAILED
