"""What a pipeline saves if the host and the device both have work: a serial loop, and rings of 2, 3
and 4 slots.

A step prepares a batch on the host (numpy) and multiplies it on the device (gemm, with the copies
to and from the device's memory). Then it consumes the result on the host. Host and device work are
made about equal. Every loop is verified against float64 first, then the loops are timed in turns.
llvmpipe, the cpu device and numpy have one thread each, so that two threads on two cores overlap.
The script sets their environment variables and starts itself again, before any driver reads them.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from _reexec import reexec

reexec()

import argparse  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
from typing import Any  # noqa: E402

ONE_THREAD = ("LP_NUM_THREADS", "SPARKLE_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
if __name__ == "__main__" and any(os.environ.get(name) != "1" for name in ONE_THREAD):
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])

import numpy as np  # noqa: E402
from _bench.machine import env  # noqa: E402
from _bench.report.writers import Outputs  # noqa: E402
from _bench.rows import results, stats  # noqa: E402
from _console import output, table  # noqa: E402
from _console.problems import FAILED, NO_DEVICE, OK, UsageError  # noqa: E402
from _overlap.loops import STARVED, Round, measure  # noqa: E402
from _overlap.steps import Work  # noqa: E402

import sparkle_drv as sp  # noqa: E402


def summary(rounds: list[Round], seed: int) -> list[dict[str, Any]]:
    """Returns a dict for each depth (slots of the ring; 0: the serial loop). A dict has the medians
    over the rounds, and the ratio to the serial loop. The ratio has a 95 % bootstrap interval if
    there are at least six rounds.
    """
    alone = [taken[0].seconds for taken in rounds]
    rows = []
    for depth in sorted(rounds[0]):
        taken = [one[depth] for one in rounds]
        seconds = [run.seconds for run in taken]
        enough = depth and len(rounds) >= stats.FEWEST_FOR_INTERVAL
        low, high = stats.ratio_interval(alone, seconds, seed) if enough else (None, None)
        rows.append(
            {
                "depth": depth,
                "seconds": float(np.median(seconds)),
                "samples_s": seconds,
                "ratio": float(np.median(seconds) / np.median(alone)),
                "ratio_low": low,
                "ratio_high": high,
                "device_busy": float(np.median([run.device_s / run.seconds for run in taken])),
                "no_core": float(np.median([run.starved for run in taken])),
                "slots_in_flight": float(np.mean([run.in_flight for run in taken])),
                "acquires_that_waited": float(np.mean([run.waited for run in taken])),
            }
        )
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    columns = (
        "loop",
        "value",
        "of serial",
        "95 % interval",
        "device busy",
        "in flight",
        "waited",
        "no core",
    )
    lines = [
        [
            f"pipeline of {row['depth']}" if row["depth"] else "serial",
            table.duration(row["seconds"] * 1e9),
            f"{row['ratio']:.3f}",
            f"{row['ratio_low']:.3f} .. {row['ratio_high']:.3f}" if row["ratio_low"] else "-",
            f"{row['device_busy']:.0%}",
            f"{row['slots_in_flight']:.2f} of {row['depth']}" if row["depth"] else "-",
            f"{row['acquires_that_waited']:.0%}" if row["depth"] else "-",
            f"{row['no_core']:.0%}",
        ]
        for row in rows
    ]
    table.show(columns, lines)
    print(
        "(in flight: slots, when the next was asked for; waited: how often none was free; no core: "
        "time in which threads were ready but others had the cores)"
    )


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n\n")[0],
        epilog="exit codes: 0 well, 1 a wrong result or slower than --at-most, 2 usage, "
        "3 no such device",
    )
    made.add_argument("-d", "--device", default="egl:0", help="a URI (default egl:0)")
    made.add_argument("--size", type=_whole, default=320, metavar="N", help="N by N (default 320)")
    made.add_argument("--steps", type=_whole, default=16, help="frames per run (default 16)")
    made.add_argument("--rounds", type=_whole, default=15, help="calm rounds to reach (default 15)")
    made.add_argument(
        "--depths",
        type=lambda text: [_whole(depth) for depth in text.split(",")],
        default="2,3,4",
        metavar="LIST",
        help="rings to try (default 2,3,4)",
    )
    made.add_argument(
        "--balance",
        type=float,
        default=1.0,
        metavar="X",
        help="the host's work as a share of the device's (default 1)",
    )
    made.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="S",
        help="seconds for all rounds (default 60)",
    )
    made.add_argument("--seed", type=int, default=1)
    made.add_argument(
        "--at-most",
        type=float,
        metavar="X",
        help="exit with 1 unless the best ring takes at most X of the serial time",
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    return made


def _whole(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1 << 20:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to 2**20, got {text}")
    return value


def main() -> int:
    options = parser()
    args = options.parse_args()
    if max(args.depths) >= args.steps:
        options.error(f"--steps {args.steps}: expected more than the slots ({max(args.depths)})")
    try:
        Outputs(args.json).check()
        with sp.open(args.device) as dev:
            work = Work(dev, args.size, args.seed)
            host_s, device_s = work.balance(args.balance)
            rounds, aside = measure(work, args.steps, args.rounds, args.depths, args.timeout)
            name = dev.info.name
        return report(args, name, (host_s, device_s), rounds, aside)
    except UsageError as error:
        options.error(str(error))
    except sp.DeviceNotFound as error:
        print(f"pipeline_overlap.py: {error}", file=sys.stderr)
        return NO_DEVICE
    except (sp.SparkleError, ValueError) as error:
        print(f"pipeline_overlap.py: {error}", file=sys.stderr)
        return FAILED


def report(
    args: argparse.Namespace,
    name: str,
    step_s: tuple[float, float],
    rounds: list[Round],
    aside: list[Round],
) -> int:
    """Prints the results and writes the files. Returns the exit code."""
    where, (host_s, device_s) = env.describe(), step_s
    rows = summary(rounds, args.seed)
    print(
        f"# {args.device} ({name}), load {where['load_1min']}: a step is "
        f"{table.duration(host_s * 1e9)} on the host and {table.duration(device_s * 1e9)} on the "
        f"device; {args.steps} steps, every result verified"
    )
    others = f", {len(aside)} more set aside, in which others had the cores" if aside else ""
    print(f"# {len(rounds)} rounds{others}")
    if any(run.starved >= STARVED for taken in rounds for run in taken.values()):
        print("# no round was calm: the results are of a machine without a free core")
    show(rows)
    if args.json:
        document = {"env": where, "device": args.device, "device_name": name, "size": args.size}
        document |= {"steps": args.steps, "host_s": host_s, "device_s": device_s, "loops": rows}
        document["set_aside"] = summary(aside, args.seed) if aside else []
        text = json.dumps(results.finite(document)) + "\n"
        if not output.save("pipeline_overlap.py", args.json, text):
            return FAILED
    best = min(row["ratio"] for row in rows[1:])
    if args.at_most is not None and best > args.at_most:
        print(f"pipeline_overlap.py: {best:.3f} of the serial time at best", file=sys.stderr)
        return FAILED
    return OK


if __name__ == "__main__":
    sys.exit(output.guarded("pipeline_overlap.py", main))
