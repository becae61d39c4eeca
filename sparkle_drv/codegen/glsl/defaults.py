"""What a plan leaves open: algorithm and tiles of gemm and conv2d by kind of device.

Only the floor under ops/tiles, which plans with the sizes of the operation at hand: for kernels
loaded by name, without a plan. Called by gemm.py and conv2d.py.
"""

from __future__ import annotations

from sparkle_drv.types import DeviceInfo, TilePlan

from .tile import Tile

Levels = tuple[tuple[int, int, int], tuple[int, int, int]]

NAIVE: Levels = ((8, 8, 1), (1, 1, 1))
# A software device runs a vector's threads one by one at every load and store: outputs a load are
# what counts, and shared memory only copies.
SOFTWARE: Levels = ((8, 64, 4), (8, 8, 1))
HARDWARE: Levels = ((64, 64, 16), (4, 4, 1))
CONV_HARDWARE: Levels = ((32, 64, 16), (4, 4, 1))


def gemm(plan: TilePlan, info: DeviceInfo) -> Tile:
    algo = plan.algo
    if algo == "auto":
        algo = "blocked" if info.software else "shared"
    return _tile(algo, plan, {"naive": NAIVE, "blocked": SOFTWARE}.get(algo, HARDWARE))


def conv2d(plan: TilePlan, info: DeviceInfo) -> Tile:
    algo = plan.algo
    if algo == "auto":
        algo = "direct" if info.software else "im2col"
    return _tile(algo, plan, {"naive": NAIVE, "direct": SOFTWARE}.get(algo, CONV_HARDWARE))


def _tile(algo: str, plan: TilePlan, levels: Levels) -> Tile:
    """What the plan leaves out, and zeros in it, are the default's. A thread of "naive" has one
    output whatever the plan says."""
    given = plan.levels[:1] if algo == "naive" else plan.levels
    (bm, bn, bk), (tm, tn, _) = (
        tuple(new or old for new, old in zip(one, level, strict=True))
        for one, level in zip([*given, *[(0, 0, 0)] * 2][:2], levels, strict=True)
    )
    return Tile(algo, bm, bn, bk, tm, tn, plan.vector or (1 if algo == "naive" else 4))
