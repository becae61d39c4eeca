"""What a plan leaves open: algorithm and tiles of gemm and conv2d by kind of device.

Only the floor under ops/tiles.py, which plans with the sizes of the operation at hand: for kernels
loaded by name, without a plan. Called by gemm.py and conv2d.py.
"""

from __future__ import annotations

from sparkle_drv.types import DeviceInfo, TilePlan

from .tile import Tile

Levels = tuple[tuple[int, int, int], tuple[int, int, int]]

NAIVE: Levels = ((8, 8, 1), (1, 1, 1))
# A software device runs a vector's threads one by one at every load and store: outputs a load are
# what counts, and shared memory only copies.
SOFTWARE: Levels = ((8, 64, 8), (8, 8, 1))
HARDWARE: Levels = ((64, 64, 16), (4, 4, 1))
CONV_SOFTWARE: Levels = ((16, 32, 4), (16, 4, 1))
CONV_HARDWARE: Levels = ((32, 64, 16), (4, 4, 1))


def gemm(plan: TilePlan, info: DeviceInfo, itemsize: int) -> Tile:
    algo = plan.algo
    if algo == "auto":
        algo = "blocked" if info.software else "shared"
    if algo == "naive":
        levels = NAIVE
    elif algo == "blocked":
        levels = SOFTWARE
    else:
        levels = HARDWARE
    return _tile(algo, plan, levels)


def conv2d(plan: TilePlan, info: DeviceInfo) -> Tile:
    algo = plan.algo
    if algo == "auto":
        algo = "direct" if info.software else "im2col"
    if algo == "naive":
        levels = NAIVE
    elif algo == "direct":
        levels = CONV_SOFTWARE
    else:
        levels = CONV_HARDWARE
    return _tile(algo, plan, levels)


def _tile(algo: str, plan: TilePlan, levels: Levels) -> Tile:
    """Levels that the plan leaves out, or zeros in them, are the default's; naive has one size."""
    given = () if algo == "naive" and plan.algo != "naive" else plan.levels
    if algo == "naive" and len(given) > 1:
        given = given[:1]
    merged = [
        tuple(new or old for new, old in zip(one, level, strict=True))
        for one, level in zip([*given, *[(0, 0, 0)] * 2][:2], levels, strict=True)
    ]
    (bm, bn, bk), (tm, tn, _) = merged
    return Tile(algo, bm, bn, bk, tm, tn, plan.vector or (1 if algo == "naive" else 4))
