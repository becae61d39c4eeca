"""A large product on whatever devices there are: what each is, who helps, how good the plan was.

    python examples/junk_boot.py                                 all devices, a small part of it
    python examples/junk_boot.py -d cpu:c0,cpu:c1 --scale 0.125  these, an eighth of each side
    python examples/junk_boot.py --shards each --scale 1         all take part; 32768 x 4096 x 4096

CHECKED rows, drawn by chance all over the product, are compared with numpy's in float64.
Exit codes: 0 well, 1 the product is wrong, 2 usage, 3 no such device.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

import sparkle_drv as sp

ROWS, INNER, COLUMNS = 32768, 4096, 4096
CALLS = 3
"""The first ones are measured, and correct the plan."""
CHECKED = 64
"""Rows that numpy computes, too."""


def scale(text: str) -> float:
    """A part of each side."""
    value = float(text)
    if not 0.002 <= value <= 1:
        raise argparse.ArgumentTypeError(f"expected 0.002 to 1, got {text}")
    return value


def operands(part: float) -> tuple[np.ndarray, np.ndarray]:
    """The two matrices, float32, with sides of this part of the whole ones."""
    rows, inner, columns = (max(8, round(part * side)) for side in (ROWS, INNER, COLUMNS))
    chance = np.random.default_rng(1)
    a = chance.standard_normal((rows, inner), np.float32)
    return a, chance.standard_normal((inner, columns), np.float32)


def wrong(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> str:
    """What is wrong with some rows of c; "": nothing. Sums of n float32 numbers err by sqrt(n)."""
    rows = np.random.default_rng(2).choice(len(a), min(CHECKED, len(a)), replace=False)
    want = a[rows].astype(np.float64) @ b
    off = np.abs(c[rows] - want).max(1)
    worst = int(off.argmax())
    limit = 1e-5 * len(b) ** 0.5 * max(np.abs(want).max(), 1)
    return "" if off[worst] <= limit else f"row {rows[worst]} is off by {off[worst]:.2g}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 1 wrong result, 2 usage, 3 no such device",
    )
    parser.add_argument("-d", "--devices", default="all", help="URIs separated by commas, or all")
    parser.add_argument(
        "--shards", choices=("auto", "each"), default="auto", help="leave out who does not help?"
    )
    parser.add_argument(
        "--scale", type=scale, default=0.25, help="part of each side (default 0.25)"
    )
    args = parser.parse_args()
    try:
        ctx = sp.init("all" if args.devices == "all" else args.devices.split(","))
    except (sp.DeviceNotFound, ValueError) as error:
        print(str(error).partition("\n")[0], file=sys.stderr)
        return 3
    with ctx:
        a, b = operands(args.scale)
        c = np.empty((len(a), b.shape[1]), np.float32)
        seconds = 0.0
        for _ in range(CALLS):
            begin = time.perf_counter()
            ctx.gemm(a, b, c, shards=args.shards)  # what is not known of a device is measured now
            seconds = time.perf_counter() - begin
            if said := wrong(c, a, b):
                print(f"the product is wrong: {said}", file=sys.stderr)
                return 1
        print(ctx.explain_devices())
        print(ctx.explain_last_plan())
        flops = 2.0 * a.size * b.shape[1]
        print(
            f"{len(a)} x {len(b)} by {len(b)} x {b.shape[1]}: {1e3 * seconds:.1f} ms, "
            f"{flops / seconds / 1e9:.1f} GFLOPS, {min(CHECKED, len(a))} rows checked"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
