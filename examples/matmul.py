"""A matrix product on whatever this machine has: Sparkle decides where, and says why.

    python examples/matmul.py                       all devices, 512 x 512
    python examples/matmul.py -n 64 -d cpu,egl:0    these two, 64 x 64

Exit codes: 0 well, 1 the product is wrong, 2 usage, 3 no such device.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

import sparkle_drv as sp

CALLS = 20


def whole(text: str) -> int:
    """A number from 1 on."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {value}")
    return value


def right(got: np.ndarray, a: np.ndarray, b: np.ndarray) -> bool:
    """Is it the product, as well as sums of n float32 numbers can be? In float64, on numpy."""
    want = a.astype(np.float64) @ b
    return bool(np.abs(got - want).max() <= 1e-5 * np.sqrt(len(a)) * max(np.abs(want).max(), 1))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 1 wrong result, 2 usage, 3 no such device",
    )
    parser.add_argument("-d", "--device", default="all", help="URIs separated by commas, or all")
    parser.add_argument("-n", type=whole, default=512, help="rows and columns (default 512)")
    args = parser.parse_args()

    a, b = np.random.default_rng(1).standard_normal((2, args.n, args.n)).astype(np.float32)
    try:
        # Opens the devices. What was measured of them before is read from a file, what is not known
        # is measured when the first call needs it: that takes a tenth of a second on the cpu.
        ctx = sp.init("all" if args.device == "all" else args.device.split(","))
    except (sp.DeviceNotFound, ValueError) as error:
        print(str(error).partition("\n")[0], file=sys.stderr)
        return 3
    with ctx:
        c = ctx.gemm(a, b)  # numpy in, numpy out; where it is done is not our business
        if not right(c, a, b):
            print("the product is wrong", file=sys.stderr)
            return 1

        begin = time.perf_counter()
        for _ in range(CALLS):  # the same shape again: decided already, and corrected by each run
            ctx.gemm(a, b, out=c)
        seconds = (time.perf_counter() - begin) / CALLS
        print(
            f"{args.n} x {args.n}: {1e3 * seconds:.3f} ms, {2e-9 * args.n**3 / seconds:.1f} GFLOPS"
        )
        print(ctx.explain_last_plan())
        print(ctx.explain_devices())
    return 0


if __name__ == "__main__":
    sys.exit(main())
