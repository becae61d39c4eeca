"""Loop blocking of matrix products: from a memory hierarchy and sizes to a TilePlan.

Pure functions over plain data (DeviceInfo and sizes), no device, no clock. Blocks on a CPU follow

    T. M. Low, F. D. Igual, T. M. Smith, E. S. Quintana-Orti: Analytical Modeling Is Enough for
    High-Performance BLIS, ACM TOMS 43(2), 2016

with differences that are noted where they are made. conv2d.py has convolutions. Called by
`calls/plans.py`; the scheduler and `bench.py tune` search around it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparkle_drv.types import DeviceInfo, TilePlan

from . import gpu as tiles_gpu
from .caches import Caches, own
from .cores import Core, Levels, core_of, down, micro_tile, threads_for

_WAYS = 16  # of L3, usually: DeviceInfo does not tell associativity
_LINE = 64
MAX_PACKED = 8 << 20
"""Bytes of b that one thread packs at a time."""
OUTER_BYTES_PER_CYCLE = 8
"""What one core gets from L3 or memory."""

FEW_ROWS = 4
"""Up to so many rows of a, b is read once and hardly worth packing."""
ALONG_NBYTES = 256 << 10
"""Of a few rows of b, which are read along them while c stays in L2: gemm/slice.c's."""


@dataclass(frozen=True)
class Blocks:
    """Loop blocking of a matrix product, in elements."""

    mc: int
    """Rows of a block of a."""
    nc: int
    """Columns of a block of b."""
    kc: int
    """Terms that are added up before c is touched again: the length of a panel."""
    mr: int
    """Rows of the micro-tile that registers hold."""
    nr: int
    """Columns of it."""
    vector: int
    """Elements of a vector register."""

    @property
    def levels(self) -> Levels:
        """As in a TilePlan: (mc, nc, kc), then (mr, nr, 1)."""
        return (self.mc, self.nc, self.kc), (self.mr, self.nr, 1)


def blocks(core: Core, caches: Caches, itemsize: int) -> Blocks:
    """Block sizes for one core and one element size; they do not depend on the matrices, but for
    extreme ones: see `gemm`."""
    mr, nr, vector = micro_tile(core, itemsize)
    l2 = own(caches, 2)
    kc = _kc(core, mr, nr, vector, itemsize, l2)

    # mc: the block of a, mc x kc, fills three eighths of L2. The paper gives it all the ways that
    # are left beside the micro-panel of b; here three of these are under way (one in use, the next,
    # asked for early, and the one before, not yet pushed out), and so are tiles of c.
    mc = down(l2 * 3 // 8 // (kc * itemsize), mr)

    # nc: the block of b, kc x nc, does the same in this core's part of L3. Bounded, because each
    # thread packs a block of its own.
    l3 = own(caches, 3) if any(cache.level == 3 for cache in caches) else 4 * l2
    way = max(_LINE, l3 // _WAYS)
    left = _WAYS - 1 - -(-(mc * kc * itemsize) // way)
    nc = down(min(MAX_PACKED, max(1, left) * way) // (kc * itemsize), nr)
    return Blocks(mc=mc, nc=nc, kc=kc, mr=mr, nr=nr, vector=vector)


def _kc(core: Core, mr: int, nr: int, vector: int, itemsize: int, own_l2: int) -> int:
    """The paper counts loads of a and b, and has a micro-panel of b stay in L1. The update of c,
    once per kc, counts more.

    It reads and writes mr * nr elements at what an outer cache gives. kc is the least that keeps
    this below a sixty-fourth of the FMAs: on Zen 4 each halving of kc from there costs 2 to 5 %,
    because rows of c that are a page apart push each other out of L1. b's micro-panel may then
    outgrow L1, but not an eighth of L2: it streams from there at nr * itemsize bytes per
    mr * nr / vector / fma_per_cycle cycles, a few bytes a cycle where L2 gives dozens.
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
    """The plan of c[m, n] = a[m, k] @ b[k, n].

    stays: b stays as it is, so that what is worth packing (packs_b) will be, and is only read in
    place until then: both with this plan, in which the order of additions is the same. a_rows,
    b_rows: its rows lie along memory; what does not is packed, a slice of terms at a time.
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
    """`tile`, but for a b of a panel or two."""
    # Each row of a is read once and in place (gemm/args.c): from one end to the other, and c once.
    # All that is used again is b, whose panel has half of L2.
    half = own(info.caches, 2) // 2
    return replace(tile, kc=max(tile.kc, _multiple(half / (tile.nr * itemsize))))


def _for_few_rows(
    info: DeviceInfo, tile: Blocks, shape: tuple[int, int, int], itemsize: int, stays: bool
) -> Blocks:
    """`tile`, but for an a of so few rows that nothing of a large b is used again."""
    (m, n, k), core, l2 = shape, core_of(info), own(info.caches, 2)
    packs = stays and _worth_packing(core, m, n * k * itemsize)
    near_c = m <= 2 * tile.mr and m * n * itemsize <= l2 // 8
    if near_c and not packs and n * k * itemsize > own(info.caches, 3) // 2:
        # b is read once and in place, from memory: along its rows, while c stays in L2; or a panel
        # at a time, which has half of L1 until the second tile has read it.
        if core.far_rows:
            nc = down(min(l2 // 4, ALONG_NBYTES) // (core.far_rows * itemsize), tile.nr)
            return replace(tile, kc=core.far_rows, nc=nc)
        half = own(info.caches, 1) // 2
        return replace(tile, kc=min(tile.kc, _multiple(half / (tile.nr * itemsize))))
    return tile


def packs_b(info: DeviceInfo, m: int, n: int, k: int, itemsize: int, plan: TilePlan) -> bool:
    """Is b worth a packed copy that stays? Not where the kernel reads it in place (gemm/args.c)."""
    return plan.algo == "blocked" and _worth_packing(core_of(info), m, n * k * itemsize)


def _worth_packing(core: Core, m: int, nbytes: int) -> bool:
    return m > FEW_ROWS and nbytes > core.small_b
