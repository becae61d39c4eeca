"""Default algorithms and tile sizes of gemm and conv2d, for software and for hardware devices.

Kernels that are loaded by name, without a plan, use these defaults. ops/tiles makes better plans,
because it knows the sizes of the operation. gemm.py and conv2d.py call this.
"""

from __future__ import annotations

from sparkle_drv.types import DeviceInfo, TilePlan

from .tile import Tile

Levels = tuple[tuple[int, int, int], tuple[int, int, int]]

NAIVE: Levels = ((8, 8, 1), (1, 1, 1))
# A software device runs threads as lanes of a CPU's vector, but does their loads and stores one
# after another. So a thread computes many outputs per load. Shared memory would only add a copy.
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
    """Returns the tile of `plan`. Sizes that are absent or 0 are taken from `levels`.

    A thread of "naive" always has one output.
    """
    given = plan.levels[:1] if algo == "naive" else plan.levels
    (bm, bn, bk), (tm, tn, _) = (
        tuple(new or old for new, old in zip(one, level, strict=True))
        for one, level in zip([*given, *[(0, 0, 0)] * 2][:2], levels, strict=True)
    )
    return Tile(algo, bm, bn, bk, tm, tn, plan.vector or (1 if algo == "naive" else 4))
