"""Products of many sizes, juggled: how long each device takes, and which one Sparkle chose.

    python examples/juggling.py -d cpu,egl:0 --picture juggling.svg    or .png; needs matplotlib

Without --picture a table alone.
Exit codes: 0 well, 1 a product is wrong, 2 usage, 3 no such device.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

import sparkle_drv as sp

SIDES = (16, 32, 64, 128, 256, 512)
ROUNDS = 5
ENDINGS = (".svg", ".png")


@dataclass
class Point:
    """Products of one size: seconds on each device, by URI, and the device that was chosen."""

    side: int
    seconds: dict[str, float]
    chosen: str


def measured(ctx: sp.Context, side: int) -> Point | None:
    """The products of one size, each checked before it is timed; None when one is wrong."""
    a, b = np.random.default_rng(side).standard_normal((2, side, side)).astype(np.float32)
    want = a.astype(np.float64) @ b
    times: dict[str, list[float]] = {}
    for device in ctx.devices:
        # devices= leaves Sparkle no choice; the first call of a shape also compiles.
        error = np.abs(ctx.gemm(a, b, devices=[device.uri]) - want).max()
        if error > 1e-5 * side**0.5 * max(np.abs(want).max(), 1):
            print(f"{device.uri}: off by {error:.2g} at {side}", file=sys.stderr)
            return None
        times[device.uri] = []
    for _ in range(ROUNDS):  # in turns: what slows the machine down meets all of them
        for uri, taken in times.items():
            begin = time.perf_counter()
            ctx.gemm(a, b, devices=[uri])
            taken.append(time.perf_counter() - begin)
    ctx.gemm(a, b)
    plan = ctx.last_plan
    assert plan is not None
    return Point(side, {uri: median(taken) for uri, taken in times.items()}, plan.device)


def table(points: list[Point]) -> str:
    """A line a size: milliseconds on each device, a star at the one that was chosen."""
    uris = list(points[0].seconds)
    lines = ["  side" + "".join(f"{uri:>14}" for uri in uris)]
    for p in points:
        cells = (f"{1e3 * p.seconds[u]:.3f}{'*' if u == p.chosen else ' '}" for u in uris)
        lines.append(f"{p.side:6d}" + "".join(f"{cell:>14}" for cell in cells))
    return "\n".join([*lines, "ms a call; * is where Sparkle did it"])


def draw(points: list[Point], path: Path) -> None:
    """Time by size, a line a device, a ring around what was chosen. ImportError, OSError."""
    import matplotlib

    matplotlib.use("Agg")  # to a file: no window
    import matplotlib.pyplot as plt

    sides = [p.side for p in points]
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for uri in points[0].seconds:
        axes.loglog(sides, [1e3 * p.seconds[uri] for p in points], marker=".", label=uri)
    chosen = [1e3 * p.seconds[p.chosen] for p in points]
    axes.scatter(sides, chosen, s=120, facecolors="none", edgecolors="black", label="chosen")
    axes.set_xticks(sides, [str(side) for side in sides])
    axes.minorticks_off()
    axes.set_xlabel("side of the matrices")
    axes.set_ylabel("ms a product")
    axes.set_title("float32 products, and where Sparkle did them")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 1 wrong result, 2 usage, 3 no such device",
    )
    parser.add_argument("-d", "--device", default="all", help="URIs separated by commas, or all")
    parser.add_argument("--picture", type=Path, help="a file to draw to, .svg or .png")
    args = parser.parse_args()
    if args.picture and args.picture.suffix not in ENDINGS:
        parser.error(f"--picture: a name that ends in {' or '.join(ENDINGS)}, got {args.picture}")

    try:
        ctx = sp.init("all" if args.device == "all" else args.device.split(","))
    except (sp.DeviceNotFound, ValueError) as error:
        print(str(error).partition("\n")[0], file=sys.stderr)
        return 3
    points = []
    with ctx:
        for side in SIDES:
            point = measured(ctx, side)
            if point is None:
                return 1
            points.append(point)
    print(table(points))
    if args.picture:
        try:
            draw(points, args.picture)
        except (ImportError, OSError) as error:
            print(f"no picture: {error}", file=sys.stderr)
            return 1
        print(f"drawn to {args.picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
