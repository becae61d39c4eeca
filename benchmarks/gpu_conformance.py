"""Runs the conformance suite on one device, without pytest: for machines where nothing is
installed.

python benchmarks/gpu_conformance.py cuda:0 --json conformance.json
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from _console import output


def main(argv: Sequence[str]) -> int:
    top = argparse.ArgumentParser(
        prog="gpu_conformance.py",
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 all passed, 1 a check failed, 3 no such device, or it is no GPU",
    )
    top.add_argument("uri")
    top.add_argument("--covers", default="", help="kinds of checks, by commas; default: all")
    top.add_argument("--gpu", action="store_true", help="refuse software and emulated devices")
    top.add_argument("--json", help="write all results there")
    args = top.parse_args(argv)
    import sparkle_drv as sp
    from sparkle_drv.testing import suite

    try:
        device = sp.open(args.uri)
    except sp.DeviceNotFound as error:
        print(f"gpu_conformance.py: {error}", file=sys.stderr)
        return 3
    with device:
        info = device.info
        print(f"{args.uri}: {info.name}, {info.driver}", flush=True)
        if args.gpu and (info.software or info.emulated):
            print("gpu_conformance.py: that is no GPU", file=sys.stderr)
            return 3
        counts: Counter[str] = Counter()
        told: dict[str, Any] = {
            "uri": args.uri, "device": info.name, "driver": info.driver,
            "emulated": info.emulated, "finished": False, "counts": counts, "results": [],
        }  # fmt: skip

        def keep(result: suite.Result) -> None:
            print(result, flush=True)
            counts[result.status] += 1
            told["results"].append(dataclasses.asdict(result))
            if args.json:
                output.so_far(args.json, json.dumps(told, indent=1) + "\n")

        suite.run(device, [kind for kind in args.covers.split(",") if kind], each=keep)
    told["finished"] = True
    print(f"{args.uri}: {', '.join(f'{n} {status}' for status, n in counts.items())}")
    if args.json:
        text = json.dumps(told, indent=1) + "\n"
        saved = output.save("gpu_conformance.py", args.json, text)
        return 1 if counts[suite.FAILED] or not saved else 0
    return 1 if counts[suite.FAILED] else 0


if __name__ == "__main__":
    if not __debug__:  # python -O removes assert statements, which are the checks
        os.environ.pop("PYTHONOPTIMIZE", None)
        os.execv(sys.executable, [sys.executable, *sys.argv])
    sys.exit(output.guarded("gpu_conformance.py", lambda: main(sys.argv[1:])))
