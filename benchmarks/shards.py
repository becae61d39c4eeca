"""Calls that several devices share: how near they come to the optimum, and what faults cost.

    python benchmarks/shards.py [--only real] [--seeds 200] [--rounds 15] [--side 2048] [--json F]

Sections, each a module of _shards/:

* `real`: a gemm of extent --side on cpu:c0 + cpu:c1, compared with cpu. A gemm of half that extent
  on cpu:c0 + cpu:c1/ref, compared with the work over the sum of both rates. A gemm of a quarter of
  the extent on cpu + egl:0, which share cores, compared with the best of each device alone and of
  both, and with the plan's prediction.
* `simulated`: plans on --seeds machines of 2 to 8 devices with rates within 50x and work of 2 ms or
  more (benchmarks/_inside/shards). The figures: the gap to the lower bound, and the time of a
  simulated run of the plan divided by the predicted time. One more machine has devices with rates
  of 100, 40, 20 and 5. It runs with the planned rates, then with rates up to 20 % off.
* `faults`: runs in which a device freezes or becomes 100x slower, compared with a plan that knew of
  the fault. Also runs in which some launches take very long. Calls on simulated devices with a
  virtual clock have such faults, too. Their pieces that were written twice are counted.
* `planning`: the us of a plan of 5 devices, and what planning adds to ctx.gemm of a known shape.

For ratios of times the sides are timed in turns, --rounds times, or fewer if they take long. The
figure is the median, with the interval that holds the true median with 95 %.

Exit codes: 0 well, 1 a wrong result, 2 usage, 3 no such device.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from _console import output
from _mesh.figures import Figures, Wrong
from _shards.faults import faults
from _shards.options import Options, Section
from _shards.planning import planning
from _shards.real import real
from _shards.simulated import simulated

import sparkle_drv as sp

SECTIONS: dict[str, Section] = {
    "simulated": simulated,
    "faults": faults,
    "planning": planning,
    "real": real,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 1 a wrong result, 2 usage, 3 no such device",
    )
    parser.add_argument(
        "--only", action="append", choices=SECTIONS, help="this section; may be repeated"
    )
    parser.add_argument("--seeds", type=int, default=200, help="drawn machines")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of ratios of times")
    parser.add_argument("--side", type=int, default=2048, help="of matrices of `real`")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    args = parser.parse_args()
    if args.seeds < 1 or args.rounds < 1 or args.side < 64:
        parser.error("--seeds, --rounds: expected 1 or more, --side: 64 or more")
    options, found = Options(args.seeds, args.rounds, args.side), Figures()
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
    if args.json is not None and not output.save("shards.py", args.json, json.dumps(found)):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
