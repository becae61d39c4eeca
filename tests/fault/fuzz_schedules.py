"""The conformance suite under many seeded fault schedules.

    fuzz_schedules.py [--strict] [FIRST [COUNT]]

Each check is right, refused by a typed error, or notices what was corrupted; else the schedule is
printed, and the exit code is 1. `--strict` is harsher: the card is any chip, its jobs start and
complete late, a read of old bytes from a cache is a fault. test_schedules.py runs the first ones.
"""

import faulthandler
import random
import sys
from collections import Counter

from census import census, none_left

from sparkle_drv.testing import fault_suite
from sparkle_drv.testing.faults import Schedule

CHIPS = ["gfx1100", "gfx1036"]
EVERY_CHIP = [*CHIPS, "gfx1030", "gfx1033", "gfx1035", "gfx1102", "gfx1103", "gfx1150"]
MIB = 1 << 20


def strict(seed):
    """The report of a schedule on a card that is drawn from its seed, too."""
    rng = random.Random(f"strict {seed}")
    card = {
        "chip": rng.choice(EVERY_CHIP),
        "kms_minor": rng.choice([42, 48, 54, 61]),
        "visible_nbytes": rng.choice([0, 32 * MIB]),
        "threads": rng.randint(1, 3),
        "delay_s": rng.choice([0.0, 0.0002, 0.001, 0.005]),
    }
    return fault_suite.run(Schedule(seed), seed=seed, name_stale=True, **card)


def usual(seed):
    """The report of a schedule on a card whose jobs complete as soon as they can."""
    return fault_suite.run(Schedule(seed), CHIPS[seed % 2])


def main(argv: list[str]) -> int:
    harsh = "--strict" in argv
    numbers = [int(word) for word in argv if word != "--strict"]
    first, count = (*numbers, *(0, 1000 if harsh else 3000)[len(numbers) :])
    ended, happened, wrong = Counter(), Counter(), 0
    run = strict if harsh else usual
    faulthandler.enable()
    run(first)  # what stays for good: the speed of each chip, threads
    before = census()
    for seed in range(first, first + count):
        print(f"\r{seed} ", end="", file=sys.stderr, flush=True)  # a crash is of the last one
        report = run(seed)
        ended.update(outcome.status for outcome in report.outcomes)
        happened.update(report.happened)
        if report.wrong:
            wrong += 1
            print(report, flush=True)
    print(file=sys.stderr)
    left = not none_left(before)
    print(f"{count} schedules from {first}: {wrong} wrong; checks {dict(ended)}")
    print(f"faults {dict(happened)}")
    if left:
        print(f"threads or descriptors are left: {census()} after {before}")
    return 1 if wrong or left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
