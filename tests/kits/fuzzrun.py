"""Runs a fuzz in processes, every input with a watchdog: what the programs of `make fuzz` share.

An input that takes LIMIT_S of CPU time is a Hang: Python is interrupted. What sleeps, or is in C
and never comes back, ends its process after STUCK_S with a traceback. A process that dies, of that
or of a crash, is told with the inputs that it had. Every input follows from the seed and its
number. Not a test.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

LIMIT_S = 10  # of one input, CPU time: a busy or stopped machine is no hang
STUCK_S = 300  # of one input, by the clock
CHUNK, TELL_S = 2000, 20
STDERR = sys.__stderr__ or sys.stderr  # a descriptor, whatever pytest has put in its place

One = Callable[
    [int, int], str
]  # checks the input (seed, number); the word or words it is counted as


class Hang(Exception):
    """One input took longer than LIMIT_S."""


def _late(*_: object) -> None:
    raise Hang(f"no end after {LIMIT_S} s of CPU time")


@contextmanager
def watchdog() -> Iterator[Callable[[], None]]:
    """Calls of what it gives start the time of an input anew."""
    before = signal.signal(signal.SIGPROF, _late)
    started = -STUCK_S * 1.0

    def again() -> None:
        # The timer is one system call; the thread behind the other is not for every input.
        nonlocal started
        signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
        now = time.monotonic()
        if now - started > STUCK_S / 10:
            started = now
            faulthandler.dump_traceback_later(STUCK_S, exit=True, file=STDERR)

    try:
        yield again
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        faulthandler.cancel_dump_traceback_later()


def fuzz(one: One, seed: int, first: int, count: int) -> Counter[str]:
    """Checks inputs first..first+count and counts how they ended; AssertionError with the number of
    one that raises."""
    outcomes: Counter[str] = Counter()
    with watchdog() as again:
        for number in range(first, first + count):
            again()
            try:
                outcomes[one(seed, number)] += 1
            except (Exception, Hang) as error:
                raise AssertionError(
                    f"seed {seed}, input {number}: {type(error).__name__}: {error}"
                ) from error
    return outcomes


def main(one: One, about: str, argv: Sequence[str], most: int = 40) -> int:
    """The program: --count, --first, --seed, --jobs; prints the seed first, then the outcomes."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    args = parser.parse_args(argv)
    print(f"seed {args.seed}", flush=True)
    outcomes: Counter[str] = Counter()
    starts = range(args.first, args.first + args.count, CHUNK)
    start = told = time.monotonic()
    with ProcessPoolExecutor(args.jobs, None, faulthandler.enable, (STDERR,)) as pool:
        made = [
            pool.submit(fuzz, one, args.seed, at, min(CHUNK, starts.stop - at)) for at in starts
        ]
        for at, chunk in zip(starts, made, strict=True):
            try:
                outcomes += chunk.result()
            except BrokenProcessPool as error:
                raise AssertionError(
                    f"seed {args.seed}, inputs from {at}: a process died"
                ) from error
            except AssertionError:
                pool.shutdown(cancel_futures=True)
                raise
            if time.monotonic() - told > TELL_S:
                told = time.monotonic()
                done = sum(outcomes.values())
                print(f"{done} of {args.count}, {done / (told - start):.0f} a second", flush=True)
    for outcome, n in outcomes.most_common(most):
        print(f"{n:9} {outcome}")
    took = time.monotonic() - start
    print(f"{sum(outcomes.values())} inputs in {took:.0f} s: all well")
    return 0
