"""Loop blocking of matrix products: makes a TilePlan from a memory hierarchy and sizes.

The functions take plain data (DeviceInfo and sizes) and use no device or clock. Blocks on a CPU
follow

    T. M. Low, F. D. Igual, T. M. Smith, E. S. Quintana-Orti: Analytical Modeling Is Enough for
    High-Performance BLIS, ACM TOMS 43(2), 2016

with differences that comments below explain. conv2d.py has convolutions. calls/plans.py calls this;
the scheduler and `bench.py tune` search around its plans.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparkle_drv.types import DeviceInfo, TilePlan

from . import gpu as tiles_gpu
from .caches import Caches, own
from .cores import Core, Levels, core_of, down, micro_tile, threads_for

_WAYS = 16  # the usual associativity of L3; DeviceInfo does not say it
_LINE = 64
MAX_PACKED = 8 << 20
"""The most bytes of b that one thread packs at a time."""
OUTER_BYTES_PER_CYCLE = 8
"""The bandwidth of one core from L3 or memory, in bytes per cycle."""

FEW_ROWS = 4
"""If a has at most this many rows, b is read only once, so packing does not pay."""
ALONG_NBYTES = 256 << 10
"""Bytes of a few rows of b that are read row by row while c stays in L2, as in gemm/slice.c."""


@dataclass(frozen=True)
class Blocks:
    """Loop blocking of a matrix product, in elements."""

    mc: int
    """Rows of a block of a."""
    nc: int
    """Columns of a block of b."""
    kc: int
    """Terms that are added up before c is updated: the length of a panel."""
    mr: int
    """Rows of the micro-tile in registers."""
    nr: int
    """Columns of the micro-tile."""
    vector: int
    """Elements of a vector register."""

    @property
    def levels(self) -> Levels:
        """The levels of a TilePlan: (mc, nc, kc), then (mr, nr, 1)."""
        return (self.mc, self.nc, self.kc), (self.mr, self.nr, 1)


def blocks(core: Core, caches: Caches, itemsize: int) -> Blocks:
    """Returns the block sizes for one core and one element size.

    The block sizes do not depend on the sizes of the matrices; `gemm` changes them for extreme
    sizes.

    >>> l1, l2 = sp.CacheLevel(1, 48 << 10, 1), sp.CacheLevel(2, 2 << 20, 1)
    >>> tiles.blocks(tiles.CORES["avx2"], (l1, l2), itemsize=4)
    Blocks(mc=192, nc=1664, kc=1024, mr=6, nr=16, vector=8)
    """
    mr, nr, vector = micro_tile(core, itemsize)
    l2 = own(caches, 2)
    kc = _kc(core, mr, nr, vector, itemsize, l2)

    # mc: the block of a, mc x kc, fills three eighths of L2. Low et al. give this block all ways of
    # L2 except those of the micro-panel of b. Here three micro-panels of b share L2 with the block:
    # the one in use, the next one (prefetched), and the previous one (not evicted yet). Tiles of c
    # need room in L2 too.
    mc = down(l2 * 3 // 8 // (kc * itemsize), mr)

    # nc is the width of the block of b, which has kc x nc elements. The block fills this core's
    # part of L3, except the cache ways that hold the block of a. MAX_PACKED limits it, because each
    # thread packs its own block of b.
    l3 = own(caches, 3) if any(cache.level == 3 for cache in caches) else 4 * l2
    way = max(_LINE, l3 // _WAYS)
    left = _WAYS - 1 - -(-(mc * kc * itemsize) // way)
    nc = down(min(MAX_PACKED, max(1, left) * way) // (kc * itemsize), nr)
    return Blocks(mc=mc, nc=nc, kc=kc, mr=mr, nr=nr, vector=vector)


def _kc(core: Core, mr: int, nr: int, vector: int, itemsize: int, own_l2: int) -> int:
    """Returns kc, the number of terms between two updates of c.

    Low et al. choose kc by the loads of a and b, and keep a micro-panel of b in L1. Here the update
    of c, once per kc terms, costs more than these loads. The update reads and writes mr * nr
    elements at the rate of an outer cache. kc is the smallest value for which the update takes at
    most 1/64 of the time of the FMAs. On Zen 4, each halving of this kc costs 2 to 5 %. The reason:
    rows of c that are a page apart evict each other from L1.

    The micro-panel of b may then be larger than L1, but not larger than an eighth of L2. In mr * nr
    / vector / fma_per_cycle cycles, nr * itemsize bytes of this panel are loaded from L2. That is a
    few bytes per cycle; L2 delivers dozens.
    """
    update = 2 * mr * nr * itemsize / OUTER_BYTES_PER_CYCLE
    step = mr * nr / vector / core.fma_per_cycle
    return _multiple(min(64 * update / step, own_l2 // 8 / (nr * itemsize)))


def _multiple(value: float) -> int:
    return max(64, int(value) // 8 * 8)


def gemm(
    info: DeviceInfo,
    m: int,
    n: int,
    k: int,
    itemsize: int = 4,
    algo: str = "auto",
    stays: bool = False,
    a_rows: bool = True,
    b_rows: bool = True,
) -> TilePlan:
    """Returns the plan of c[m, n] = a[m, k] @ b[k, n].

    stays: True if b never changes. Such a b is packed if that pays (packs_b), and read in place
    otherwise. In both cases the kernel uses this plan, so the order of additions is the same.
    a_rows, b_rows: True if the rows of a or b are contiguous. If an operand has no contiguous rows,
    the kernel packs it in slices of kc terms, one slice at a time.

    >>> tiles.gemm(dev.info, 4, 4, 4).algo
    'blocked'
    """
    if info.kind == "gpu":
        return tiles_gpu.gemm(info, m, n, k, itemsize, algo)
    tile = blocks(core_of(info), info.caches, itemsize)
    if n <= 2 * tile.nr:
        tile = _narrow(info, tile, itemsize) if a_rows else tile
    elif b_rows:
        tile = _for_few_rows(info, tile, (m, n, k), itemsize, stays)
    return TilePlan(
        algo="blocked" if algo == "auto" else algo,
        levels=tile.levels,
        vector=tile.vector,
        threads=threads_for(info, 2.0 * m * n * k, itemsize),
    )


def _narrow(info: DeviceInfo, tile: Blocks, itemsize: int) -> Blocks:
    """Returns `tile`, adapted to a matrix b that has only one or two panels."""
    # Each row of a is read once and in place (gemm/args.c), and c is read once. Only b is read
    # several times, so a panel of b gets half of L2.
    half = own(info.caches, 2) // 2
    return replace(tile, kc=max(tile.kc, _multiple(half / (tile.nr * itemsize))))


def _for_few_rows(
    info: DeviceInfo, tile: Blocks, shape: tuple[int, int, int], itemsize: int, stays: bool
) -> Blocks:
    """Returns `tile`, adapted to a matrix a with so few rows that a large b is read only once."""
    (m, n, k), core, l2 = shape, core_of(info), own(info.caches, 2)
    packs = stays and _worth_packing(core, m, n * k * itemsize)
    near_c = m <= 2 * tile.mr and m * n * itemsize <= l2 // 8
    if near_c and not packs and n * k * itemsize > own(info.caches, 3) // 2:
        # The kernel reads b once, from memory, without packing it. With core.far_rows, it reads b
        # row by row, while c stays in L2. Otherwise it reads b one panel after another. The rows of
        # c make one or two micro-tiles, and each of them reads the panel once. So kc is chosen
        # such that a panel takes half of L1.
        if core.far_rows:
            nc = down(min(l2 // 4, ALONG_NBYTES) // (core.far_rows * itemsize), tile.nr)
            return replace(tile, kc=core.far_rows, nc=nc)
        half = own(info.caches, 1) // 2
        return replace(tile, kc=min(tile.kc, _multiple(half / (tile.nr * itemsize))))
    return tile


def packs_b(info: DeviceInfo, m: int, n: int, k: int, itemsize: int, plan: TilePlan) -> bool:
    """Returns whether a packed copy of b saves time.

    The result is False if the kernel reads b in place anyway (gemm/args.c).

    >>> plan = tiles.gemm(dev.info, 1, 8, 8)
    >>> tiles.packs_b(dev.info, 1, 8, 8, 4, plan)
    False
    """
    return plan.algo == "blocked" and _worth_packing(core_of(info), m, n * k * itemsize)


def _worth_packing(core: Core, m: int, nbytes: int) -> bool:
    return m > FEW_ROWS and nbytes > core.small_b
