"""Three reductions over several devices: each device ends with the result, checked against numpy.

    python examples/collectives.py -d cpu,egl:0    or cpu:c0,cpu:c1, or all

Exit codes: 0 well, 1 a result is wrong, 2 usage, 3 no such device.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

import sparkle_drv as sp

ELEMENTS = 1 << 20
REFERENCE: dict[str, Any] = {"sum": np.sum, "max": np.max, "mean": np.mean}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 1 wrong result, 2 usage, 3 no such device",
    )
    parser.add_argument("-d", "--device", default="all", help="URIs separated by commas, or all")
    args = parser.parse_args()
    try:
        ctx = sp.init("all" if args.device == "all" else args.device.split(","))
    except (sp.DeviceNotFound, ValueError) as error:
        print(str(error).partition("\n")[0], file=sys.stderr)
        return 3
    with ctx, ctx.create_mesh([device.uri for device in ctx.devices]) as mesh:
        print(mesh.topology)
        chance = np.random.default_rng(1)
        host = chance.standard_normal((len(ctx.devices), ELEMENTS)).astype(np.float32)
        for op, reference in REFERENCE.items():
            arrays = [device.array(x) for device, x in zip(ctx.devices, host, strict=True)]
            mesh.all_reduce(arrays, op)
            want = reference(host.astype(np.float64), axis=0)
            for array in arrays:
                # Devices may add in any order; each sum of p numbers rounds p - 1 times.
                if np.abs(array.numpy() - want).max() > 1e-6 * len(arrays) * np.abs(host).max():
                    print(f"{op} is wrong on {array.device.uri}", file=sys.stderr)
                    return 1
            print(f"{op}: right on {len(arrays)} devices; {mesh.plan}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
