"""ops.strided_copy against numpy's `copyto` of the same view, in turns.

    python benchmarks/strided.py [--device cpu] [--size 2048] [--rounds 31]

A transpose, a shard of columns, every second column and reversed columns of a square float32
matrix, and a transpose of four dimensions. Each line: numpy's time over ours, the median of the
ratios with the interval that holds the true median with 95 %; above 1 the device is faster. The
device copies in its own memory: nothing crosses a bus. Each result is compared before it is timed.
Exit codes: 0, 1 a wrong result, 2 usage, 3 no such device.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from _mesh.figures import interval

import sparkle_drv as sp
from sparkle_drv.ops.shapes.view import View

FULL = slice(None)


def cases(size: int) -> dict[str, tuple[np.ndarray, View, np.ndarray]]:
    """By name: an array, a view of it, and the same view by numpy."""
    x = np.random.default_rng(1).standard_normal((size, size), np.float32)
    whole, half, last = View.of(x.shape), size // 2, size // 16
    four = x.reshape(last, 16, 16, last)
    keys = {
        f"columns {half // 2}:{half // 2 + half}": (FULL, slice(half // 2, half // 2 + half)),
        "columns ::2": (FULL, slice(None, None, 2)),
        "columns ::-1": (FULL, slice(None, None, -1)),
    }
    return {
        "transpose": (x, whole.turned(), x.T),
        **{name: (x, whole.at(key), x[key]) for name, key in keys.items()},
        "transpose of four dimensions": (four, View.of(four.shape).turned(), four.T),
    }


def ratios(dev: sp.Device, case: tuple[np.ndarray, View, np.ndarray], rounds: int) -> list[float]:
    """numpy's time over the device's, one a round. SystemExit for a wrong result."""
    x, view, wanted = case
    out, found = np.empty(view.shape, x.dtype), []
    with dev.array(x) as src, dev.empty(view.shape, x.dtype) as dst:
        for turn in range(rounds + 1):  # the first one warms up
            start = time.perf_counter()
            np.copyto(out, wanted)
            middle = time.perf_counter()
            sp.ops.strided_copy(
                dev, dst, src, view.shape, src_strides=view.strides, src_offset=view.offset
            )
            dev.wait_idle()
            end = time.perf_counter()
            if turn:
                found.append((middle - start) / (end - middle))
            elif not np.array_equal(dst.numpy(), out):
                raise SystemExit(f"{dev.uri}: {view} is wrong; nothing is timed")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 1 a wrong result, 2 usage, 3 no such device",
    )
    parser.add_argument("--device", default="cpu", help="its URI")
    parser.add_argument("--size", type=int, default=2048, help="rows and columns, a multiple of 16")
    parser.add_argument("--rounds", type=int, default=31, help="samples of each")
    args = parser.parse_args()
    if args.size < 16 or args.size % 16 or args.rounds < 1:
        parser.error("--size: expected a multiple of 16, --rounds: 1 or more")
    try:
        dev = sp.open(args.device)
    except (sp.DeviceNotFound, ValueError) as error:
        print(error, file=sys.stderr)
        return 3
    with dev:
        for name, case in cases(args.size).items():
            low, middle, high = interval(ratios(dev, case, args.rounds))
            print(f"numpy / {dev.uri}, {name}: {middle:.2f} [{low:.2f}, {high:.2f}]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
