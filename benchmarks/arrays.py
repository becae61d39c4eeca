"""Copies of strided views against numpy's `copyto`, and what operators of Arrays cost.

    python benchmarks/arrays.py [--device cpu] [--size 2048] [--elements 10000000] [--rounds 31]

Copies: a transpose, a shard of columns, every second column and reversed columns of a square
float32 matrix, and a transpose of four dimensions. Each line is numpy's time divided by ours; above
1 the device is faster. The device copies in its own memory: nothing crosses a bus.

Operators: the time of `np.sin(x) + y * 2` over that of `ops.map` with the same text, each measured
until its result is computed; below 1 operators are faster. Two more figures are the us of `x + y`
with 8 elements, as medians of single calls. "build" is the time until the expression returns, "run"
the time until its fence is reached.

Ratios are medians, measured in turns, with the interval that holds the true median with 95 %. Each
result is compared with numpy's before it is timed. Exit codes: 0 well, 1 a wrong result, or
operators that made more than one launch, 2 usage, 3 no such device.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _mesh.figures import interval

import sparkle_drv as sp
from sparkle_drv.ops.shapes.view import View

FULL = slice(None)
CALLS = 5000


def cases(size: int) -> dict[str, tuple[np.ndarray, View, np.ndarray]]:
    """Returns by name: a numpy array, a view of its shape (View), and the same view by numpy."""
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
    """Returns a ratio for each round: numpy's time divided by the device's. Raises SystemExit for a
    wrong result.
    """
    x, view, wanted = case
    out, found = np.empty(view.shape, x.dtype), []
    with dev.array(x) as src, dev.empty(view.shape, x.dtype) as dst:
        for turn in range(rounds + 1):  # the first turn warms up
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
                raise SystemExit(f"{dev.uri}: the copy of {view} is wrong; nothing is timed")
    return found


def ended(x: Any) -> Any:
    if x.fence is not None:
        x.fence.wait()
    return x


def operators(dev: sp.Device, size: int, rounds: int) -> list[float]:
    """Returns a ratio for each round: the time of operators divided by that of ops.map. Raises
    SystemExit for a wrong result.
    """
    given, found = np.random.default_rng(1).standard_normal((2, size), np.float32), []
    with dev.array(given[0]) as x, dev.array(given[1]) as y:
        ways: list[Callable[[], Any]] = [
            lambda: ended(np.sin(x) + y * 2),
            lambda: ended(sp.ops.map(dev, "sin(x) + y * 2", x=x, y=y)),
        ]
        for turn in range(rounds + 1):  # the first turn warms up
            took = [0.0, 0.0]
            for way in (turn % 2, 1 - turn % 2):
                before, start = dev.default_queue.submitted, time.perf_counter()
                made = ways[way]()
                took[way] = time.perf_counter() - start
                launches = dev.default_queue.submitted - before
                right = turn or np.allclose(
                    made.numpy(), np.sin(given[0]) + given[1] * 2, 1e-5, 1e-5
                )
                if not right or (turn and launches != 1):
                    raise SystemExit(
                        f"{dev.uri}: expected a right result by one launch, got "
                        f"right={bool(right)} by {launches}; nothing is timed"
                    )
            if turn:
                found.append(took[0] / took[1])
    return found


def median_us(call: Callable[[], object]) -> float:
    """Returns the median us of single calls. The median ignores the few calls in which other
    programs had the core.
    """
    took = []
    for _ in range(CALLS):
        start = time.perf_counter()
        call()
        took.append(time.perf_counter() - start)
    return float(np.median(took)) * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 1 a wrong result, 2 usage, 3 no such device",
    )
    parser.add_argument("--device", default="cpu", help="its URI")
    parser.add_argument("--size", type=int, default=2048, help="rows and columns, a multiple of 16")
    parser.add_argument("--elements", type=int, default=10_000_000, help="of operators' operands")
    parser.add_argument("--rounds", type=int, default=31, help="samples of each")
    args = parser.parse_args()
    if args.size < 16 or args.size % 16 or args.rounds < 1 or args.elements < 1:
        parser.error("--size: expected a multiple of 16, --rounds, --elements: 1 or more")
    try:
        dev = sp.open(args.device)
    except (sp.DeviceNotFound, ValueError) as error:
        print(error, file=sys.stderr)
        return 3
    with dev:
        for name, case in cases(args.size).items():
            low, middle, high = interval(ratios(dev, case, args.rounds))
            print(f"numpy / {dev.uri}, {name}: {middle:.2f} [{low:.2f}, {high:.2f}]")
        low, middle, high = interval(operators(dev, args.elements, args.rounds))
        print(f"operators / map on {dev.uri}: {middle:.3f} [{low:.3f}, {high:.3f}]")
        x, y = (dev.array(np.arange(8, dtype=np.float32)) for _ in range(2))
        print(f"x + y on {dev.uri}, build: {median_us(lambda: x + y):.2f} us")
        print(f"x + y on {dev.uri}, build and run: {median_us(lambda: ended(x + y)):.2f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
