"""Random programs over arrays that wait, compared with numpy: `make fuzz-arrays`.

    fuzz_arrays.py [--count 100000] [--seed 1] [--device cpu --device egl:0 ...] [--threads 4]
        [--switch 1e-6] [--operations NAME ...] [--kinds arrays context mesh] [--only NUMBER]

A failing program is run again with fewer and fewer operations, and the shortest one is printed as a
log: thread by thread, in the order of execution. The exit code is then 1.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import time
from collections import Counter

import model_programs
from model_actor import RULES

import sparkle_drv as sp
import sparkle_drv.testing  # makes emu: known

STUCK_S = 600
TELL_S = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100_000, help="operations on each device")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", action="append", help="may be repeated; cpu, egl:0 and emu")
    parser.add_argument("--threads", type=int, default=4, choices=range(1, 9), help="at most")
    parser.add_argument("--switch", type=float, help="sys.setswitchinterval, such as 1e-6")
    parser.add_argument("--operations", nargs="+", default=(), metavar="NAME", help="these alone")
    parser.add_argument("--kinds", nargs="+", default=model_programs.KINDS)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this program alone")
    parser.add_argument("--failures", type=int, default=1, help="programs that fail before the end")
    parser.add_argument("--shorten", type=float, default=30, help="seconds for the first failure")
    parser.add_argument("--tries", type=int, default=20, help="runs of each shorter program")
    parser.add_argument(
        "--rules", nargs="+", choices=RULES, default=(),
        help="what else has to hold: see model_actor.RULES",
    )  # fmt: skip
    args = parser.parse_args()
    wrong = 0
    for uri in args.device or ("cpu", "egl:0", "emu:gfx1100"):
        try:
            wrong += fuzz(uri, args)
        except sp.DeviceNotFound as error:
            print(f"without {uri}: {error}")
    return 1 if wrong else 0


def fuzz(uri: str, args: argparse.Namespace) -> int:
    """Runs programs on one device and prints the outcome. Returns how many programs failed."""
    started = printed = time.monotonic()
    failed = 0

    def tell(outcome: model_programs.Outcome) -> None:
        nonlocal printed, failed
        faulthandler.dump_traceback_later(STUCK_S, exit=True)
        for number, at, program, failure in outcome.failures[failed:]:
            about = f"{program.kind}, {program.threads} threads, after {at} operations"
            print(
                f"--device {uri} --seed {args.seed} --only {number} ({about}): {failure.sort}",
                flush=True,
            )
        failed = len(outcome.failures)
        if time.monotonic() - printed > TELL_S:
            printed = time.monotonic()
            rate = outcome.operations / (printed - started)
            print(f"{uri}: {outcome.operations}, {rate:.0f} a second, {failed} failed", flush=True)

    outcome = model_programs.run(
        uri, 1 if args.only is not None else args.count, args.seed, args.threads, args.switch,
        args.failures, tuple(args.operations), tuple(args.kinds), args.only or 0, args.rules,
        tell,
    )  # fmt: skip
    faulthandler.cancel_dump_traceback_later()
    took = time.monotonic() - started
    if outcome.failures:
        _, _, program, failure = outcome.failures[0]
        rig = model_programs.Rig(uri, args.rules)
        if args.switch is not None:
            sys.setswitchinterval(args.switch)
        program, failure = model_programs.shortened(rig, program, failure, args.shorten, args.tries)
        rig.close()
        print(f"{len(program.steps)} steps, arrays of {program.extents}:", *failure.log, sep="\n  ")
        print(failure.error)
        sorts = Counter(failure.sort for *_, failure in outcome.failures)
        for sort, times in sorts.most_common():
            print(f"{times:>6} {sort}")
    print(
        f"{uri}: {outcome.operations} operations in {outcome.programs} programs, "
        f"{len(outcome.failures)} failed, seed {args.seed}, {took:.0f} s",
        flush=True,
    )
    return len(outcome.failures)


if __name__ == "__main__":
    sys.exit(main())
