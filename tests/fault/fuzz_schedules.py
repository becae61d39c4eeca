"""The conformance suite under many seeded fault schedules: `fuzz_schedules.py [FIRST [COUNT]]`.

Each check is right, refused by a typed error, or notices what was corrupted; else the schedule is
printed, and the exit code is 1. test_schedules.py runs the first 300.
"""

import sys
from collections import Counter

from sparkle_drv.testing import fault_suite
from sparkle_drv.testing.faults import Schedule

CHIPS = ["gfx1100", "gfx1036"]


def main(argv: list[str]) -> int:
    first, count = (*map(int, argv), *(0, 3000)[len(argv) :])
    ended, happened, wrong = Counter(), Counter(), 0
    for seed in range(first, first + count):
        report = fault_suite.run(Schedule(seed), CHIPS[seed % 2])
        ended.update(outcome.status for outcome in report.outcomes)
        happened.update(report.happened)
        if report.wrong:
            wrong += 1
            print(report, flush=True)
    print(f"{count} schedules from {first}: {wrong} wrong; checks {dict(ended)}")
    print(f"faults {dict(happened)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
