"""How near does the mesh come to the optimum? Plans, transports, and runs on real devices.

    python benchmarks/mesh.py [--only plans] [--sets 200] [--simulate] [--rounds 15]
                              [--devices cpu:c0,cpu:c1] [--json F]

Sections, each a module of _mesh/:

* `plans`: plans of all_reduce on networks of simulated ports with 20 us of latency.
  - The lower bound over the predicted time, for 64 MiB: on equal ports, on two unequal sets (50,
    50, 50, 12.5 and 50, 50, 25, 25 MB/s), and on --sets sets of 2 to 16 ports of 10 MB/s to
    1 GB/s, drawn by seed (benchmarks/_inside/collectives.py `unequal`).
  - The plan for 4 KiB, compared with the time of the messages that must follow one another.
  - The plans for 1 KiB to 256 MiB, compared with the best single algorithm.
  - The seconds of planning.

  Printed for comparison is a known bound for an all_reduce of n bytes, which follows from the
  ports alone: n max(1 / b_min, 2 (p - 1) / sum b) seconds. p is the number of ports, b the rate of
  a port in bytes per second, b_min the lowest rate. --simulate also runs each plan on simulated
  devices. There 4 MiB go over ports of a sixteenth of the rate, which takes as long as 64 MiB.
* `real`: all_reduce of --devices, compared with numpy's `a += b; b[:] = a` on the same memory.
* `graphs`: a graph with one chain for each of --devices, compared with pinned processes that run
  one chain each.
* `transports`: on GPUs of the fake driver. A staged copy, compared with its upload alone and with a
  copy of one chunk at a time. A copy over a third GPU, compared with one over the host. The bytes
  that each transport moved.

For ratios of times the sides are timed in turns, --rounds times. The figure is the median, with the
interval that holds the true median with 95 %.

Exit codes: 0 well, 1 a wrong result, 2 usage, 3 no such device.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from _console import output
from _mesh.figures import Figures, Options, Section, Wrong
from _mesh.graphs import graphs
from _mesh.plans import plans
from _mesh.real import real
from _mesh.transports import transports

import sparkle_drv as sp

SECTIONS: dict[str, Section] = {
    "plans": plans,
    "real": real,
    "graphs": graphs,
    "transports": transports,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 1 a wrong result, 2 usage, 3 no such device",
    )
    parser.add_argument(
        "--only", action="append", choices=SECTIONS, help="this section; may be repeated"
    )
    parser.add_argument("--sets", type=int, default=200, help="unequal sets of ports")
    parser.add_argument("--simulate", action="store_true", help="also run their plans: minutes")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of ratios of times")
    parser.add_argument("--devices", default="cpu:c0,cpu:c1", help="URIs separated by commas")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    args = parser.parse_args()
    if args.sets < 0 or args.rounds < 1:
        parser.error("--sets: expected 0 or more, --rounds: 1 or more")
    options = Options(args.sets, args.simulate, args.rounds, tuple(args.devices.split(",")))
    found: Figures = {}
    try:
        for name, section in SECTIONS.items():
            if args.only is None or name in args.only:
                made = section(options)
                for what, value in made.items():
                    print(f"{what}: {value if isinstance(value, str) else f'{value:.3f}'}")
                sys.stdout.flush()
                found |= made
    except (sp.DeviceNotFound, ValueError) as error:
        print(error, file=sys.stderr)
        return 3
    except Wrong as error:
        print(f"{error}: nothing is timed", file=sys.stderr)
        return 1
    if args.json is not None and not output.save("mesh.py", args.json, json.dumps(found)):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
