"""The tile model's branch for devices that run groups of threads: which of a few tiles, and whether
operands go through shared memory.

Like `tiles.py`, pure functions without a clock. A device compiles a shader for every plan, so there
are few tiles to choose from. Called by `tiles.py` for devices of kind "gpu".

Two kinds of device:
* software (llvmpipe): threads are lanes of a CPU's vector, every load walks them one by one, and
  shared memory only copies. What counts is products a load: large tiles in registers (in memory,
  in truth: the stack of a core holds them well).
* hardware: operands are staged in shared memory, in the largest tile that fits and still gives the
  device enough groups. Untested on a GPU so far: the choice is by counting.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkle_drv.types import DeviceInfo, TilePlan

from .geometry import Geometry

_LANES = 8  # threads that a software device runs as one vector
_CALL_S = 30e-6


@dataclass(frozen=True)
class VectorCost:
    """Nanoseconds of a vector of threads for four terms of its tm x tn sums: a load of four
    elements of a row shared by eight threads, the loads of a column, a multiply-add, the spreading
    of a row's element."""

    row: float
    column: float
    product: float
    spread: float
    start: float

    def four_terms(self, tm: int, tn: int) -> float:
        rows = -(-tm // _LANES)
        sums = 4 * tm * tn * self.product
        return self.start + rows * self.row + tn * self.column + sums + 4 * tm * self.spread


# Fitted to eleven gemms and six convolutions on llvmpipe (Mesa 22.3, AVX2 code): within 15 % of
# each. A column of a gemm is one load of four elements, with strides that forbid that four; one of
# a convolution is always four, with their indices.
GEMM = VectorCost(row=12.8, column=12.8, product=0.62, spread=5.3, start=4.0)
GEMM_SCALAR = VectorCost(row=40.0, column=40.0, product=0.62, spread=5.3, start=16.0)
CONV2D = VectorCost(row=12.8, column=38.0, product=0.8, spread=4.0, start=4.0)

SOFTWARE_TILES = ((4, 4), (8, 4), (8, 8), (12, 8), (8, 12), (12, 12), (16, 16))
SOFTWARE_CONV_TILES = ((1, 8), (4, 8), (8, 8), (16, 8), (16, 12))
# Compiling takes about this long for each sum of a tile, once per machine; a tile must be worth it
# over so many launches.
_COMPILE_S, _LAUNCHES = 15e-3, 10_000

# (bm, bn, bk), (tm, tn, 1) for shared memory, largest first.
HARDWARE_TILES = (
    ((128, 128, 8), (8, 8, 1)),
    ((64, 64, 16), (4, 4, 1)),
    ((32, 32, 16), (4, 4, 1)),
)
_ENOUGH_THREADS = 32768  # that keep a GPU busy, where it does not tell its units
_THREADS_A_UNIT = 512
_FLOPS, _BYTES = 2e12, 200e9  # nominal, for predicted_s until a profile has measured real ones


def gemm(info: DeviceInfo, m: int, n: int, k: int, itemsize: int, algo: str) -> TilePlan:
    """The plan of c[m, n] = a[m, k] @ b[k, n]; algo "auto" chooses."""
    if algo == "naive":
        return TilePlan(algo=algo)
    if info.software:
        cost = GEMM if n % 4 == 0 and itemsize == 4 else GEMM_SCALAR
        tiles = SOFTWARE_TILES if itemsize == 4 else SOFTWARE_TILES[:3]
        return _registers("blocked", info, cost, tiles, (m, n, k))
    levels = _staged(info, m, n, itemsize)
    nbytes = itemsize * (m * k * -(-n // levels[0][1]) + k * n * -(-m // levels[0][0]) + m * n)
    seconds = _CALL_S + max(2.0 * m * n * k / _FLOPS, nbytes / _BYTES)
    algo = "shared" if algo == "auto" else algo
    return TilePlan(algo=algo, levels=levels, vector=4, predicted_s=seconds)


def conv2d(info: DeviceInfo, shape: Geometry, algo: str) -> TilePlan:
    """The plan of a convolution, seen as channels x pixels x terms; algo "auto" chooses."""
    if algo == "naive":
        return TilePlan(algo=algo)
    channels, pixels = shape.oc // shape.groups, shape.n * shape.size[0] * shape.size[1]
    if info.software and algo != "im2col":
        sizes = channels, pixels, shape.terms
        return _registers("direct", info, CONV2D, SOFTWARE_CONV_TILES, sizes, shape.groups)
    levels = _staged(info, channels, pixels, 4)
    seconds = _CALL_S + 2.0 * shape.oc * pixels * shape.terms / _FLOPS
    algo = "im2col" if algo == "auto" else algo
    return TilePlan(algo=algo, levels=levels, vector=4, predicted_s=seconds)


def _registers(
    algo: str,
    info: DeviceInfo,
    cost: VectorCost,
    tiles: tuple[tuple[int, int], ...],
    sizes: tuple[int, int, int],
    parts: int = 1,
) -> TilePlan:
    """The quickest of `tiles` for `parts` products of these sizes: one vector is one group, and
    groups are shared out among the cores."""
    m, n, k = sizes

    def seconds(tile: tuple[int, int]) -> float:
        tm, tn = tile
        groups = parts * -(-m // tm) * -(-n // (tn * _LANES))
        turns = -(-groups // max(1, info.compute_units))
        return _CALL_S + turns * (k / 4 + 2) * cost.four_terms(tm, tn) * 1e-9

    def worth(tile: tuple[int, int]) -> float:
        return seconds(tile) + tile[0] * tile[1] * _COMPILE_S / _LAUNCHES

    tm, tn = best = min(tiles, key=worth)
    levels = ((tm, tn * _LANES, 4), (tm, tn, 1))
    return TilePlan(algo=algo, levels=levels, vector=4, predicted_s=seconds(best))


def reduce(info: DeviceInfo) -> TilePlan:
    """The plan of a reduction: one group does a whole column; on hardware, the larger it is, the
    more loads are on their way."""
    threads = min(256 if info.software else 1024, max(1, info.max_group_size))
    return TilePlan(levels=((threads, 1, 1),), vector=4)


Levels = tuple[tuple[int, int, int], tuple[int, int, int]]


def _staged(info: DeviceInfo, m: int, n: int, itemsize: int) -> Levels:
    """The largest tile that the device can do and that still makes threads for all its units; else
    the smallest it can do."""
    wanted = info.compute_units * _THREADS_A_UNIT if info.compute_units > 1 else _ENOUGH_THREADS
    possible = [levels for levels in HARDWARE_TILES if _fits(info, levels, itemsize)]
    for (bm, bn, bk), (tm, tn, one) in possible:
        threads = -(-m // bm) * -(-n // bn) * (bm // tm) * (bn // tn)
        if threads >= wanted:
            return (bm, bn, bk), (tm, tn, one)
    return possible[-1] if possible else ((16, 16, 8), (4, 4, 1))


def _fits(info: DeviceInfo, levels: Levels, itemsize: int) -> bool:
    (bm, bn, bk), (tm, tn, _) = levels
    return (bm + bn) * bk * itemsize <= info.max_shared_nbytes and (bm // tm) * (
        bn // tn
    ) <= info.max_group_size
