"""The conformance suite on one device, without pytest: for machines that have nothing installed.

python benchmarks/gpu_conformance.py cuda:0 --json conformance.json
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str]) -> int:
    top = argparse.ArgumentParser(
        prog="gpu_conformance.py",
        description=(__doc__ or "").splitlines()[0],
        epilog="exit codes: 0 all passed, 1 a check failed, 3 no such device, or not the GPU's",
    )
    top.add_argument("uri")
    top.add_argument("--covers", default="", help="kinds of checks, by commas; default: all")
    top.add_argument("--gpu", action="store_true", help="refuse software and emulated devices")
    top.add_argument("--json", help="write everything there")
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
        results = suite.run(device, [kind for kind in args.covers.split(",") if kind])
    for result in results:
        print(result)
    counts = Counter(result.status for result in results)
    print(f"{args.uri}: {', '.join(f'{n} {status}' for status, n in counts.items())}")
    if args.json:
        told = {
            "uri": args.uri, "device": info.name, "driver": info.driver, "counts": counts,
            "results": [dataclasses.asdict(result) for result in results],
        }  # fmt: skip
        Path(args.json).write_text(json.dumps(told, indent=1) + "\n")
    return 1 if counts[suite.FAILED] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
