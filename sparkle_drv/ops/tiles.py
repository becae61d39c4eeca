"""The analytic tile model: from a memory hierarchy and an operation to a TilePlan.

Pure functions over plain data (DeviceInfo and sizes), no device, no clock. Blocks on a CPU follow

    T. M. Low, F. D. Igual, T. M. Smith, E. S. Quintana-Orti: Analytical Modeling Is Enough for
    High-Performance BLIS, ACM TOMS 43(2), 2016

with two differences, each noted where it is made. `predicted_s` is a roofline: good for ranking,
not for promising. Called by `gemm.py` and `conv2d.py`; the scheduler and `bench.py tune` search
around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from sparkle_drv.types import CacheLevel, DeviceInfo, TilePlan


@dataclass(frozen=True)
class Core:
    """What one core of an instruction set computes with; `fma_latency` in cycles."""

    vector_nbytes: int
    registers: int
    fma_latency: int
    fma_per_cycle: int


# From the vendors' optimisation guides (Zen 4/5, Golden Cove, Neoverse N1/V1); "ref" is what a
# compiler makes of portable C for x86-64 or aarch64: 16-byte vectors.
CORES = {
    "avx512": Core(vector_nbytes=64, registers=32, fma_latency=4, fma_per_cycle=2),
    "avx2": Core(vector_nbytes=32, registers=16, fma_latency=4, fma_per_cycle=2),
    "neon": Core(vector_nbytes=16, registers=32, fma_latency=4, fma_per_cycle=2),
    "ref": Core(vector_nbytes=16, registers=16, fma_latency=4, fma_per_cycle=1),
}

# Taken when a device does not tell its caches: small enough for any machine of this century.
FALLBACK_CACHES = (CacheLevel(1, 32 << 10, 1), CacheLevel(2, 256 << 10, 1))
_WAYS = {1: 8, 2: 8, 3: 16}  # DeviceInfo does not tell associativity; these are the usual ones
_LINE = 64

# Nominal figures for predicted_s until a profile has measured real ones.
CLOCK_HZ = 3e9
BYTES_PER_S = 10e9  # of one core from memory
CALL_S = 1e-6
WAKE_S = 25e-6  # a sleeping pool thread; a spinning one answers in a tenth of a microsecond
WORTH_A_THREAD_S = 2e-6  # below this much work each, a second thread costs more than it brings


@dataclass(frozen=True)
class Blocks:
    """Loop blocking of a matrix product: a micro-tile of mr x nr, panels of kc, blocks of mc and
    nc."""

    mc: int
    nc: int
    kc: int
    mr: int
    nr: int
    vector: int  # elements of a vector register

    @property
    def levels(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        return (self.mc, self.nc, self.kc), (self.mr, self.nr, 1)


def core_of(info: DeviceInfo) -> Core:
    return CORES.get(info.isa, CORES["ref"])


def micro_tile(core: Core, itemsize: int) -> tuple[int, int, int]:
    """(mr, nr, vector): the largest tile of accumulators that the registers hold.

    Low et al., section 4.1, ask for mr * nr >= vector * latency * fma_per_cycle, the fewest
    accumulators that hide the latency of an FMA. Here every register left beside two vectors of b
    and two of a (one in use, one on its way) accumulates, which meets that bound and needs fewer
    loads per FMA.
    """
    vector = core.vector_nbytes // itemsize
    mr = (core.registers - 4) // 2
    return mr, 2 * vector, vector


def _cache(caches: tuple[CacheLevel, ...], level: int) -> CacheLevel | None:
    return next((cache for cache in caches if cache.level == level), None)


@lru_cache(maxsize=64)
def blocks(core: Core, caches: tuple[CacheLevel, ...], itemsize: int) -> Blocks:
    """Block sizes for one core and one element size; they do not depend on the matrices.

    kc: a micro-panel of b (kc x nr) stays in L1 while micro-panels of a (mr x kc) stream past it,
    of which two are alive at a time (section 4.2, equation 4: C_Ar = floor((W - 1) / (1 + nr/mr))
    ways hold a's). mc: the block of a (mc x kc) fills what L2 has left after the micro-panel of b
    and one way for a's successor (equation 5). nc: the block of b (kc x nc) does the same one level
    further out (equation 6); without a third level it shares L2 with nothing, so it stays at a size
    that memory streams well.
    """
    mr, nr, vector = micro_tile(core, itemsize)
    l1 = _cache(caches, 1) or FALLBACK_CACHES[0]
    l2 = _cache(caches, 2) or FALLBACK_CACHES[1]
    l3 = _cache(caches, 3)

    ways, way = _WAYS[1], l1.nbytes // _WAYS[1]
    ways_a = max(1, int((ways - 1) / (1 + nr / mr)))
    # Equation 4 rounds to whole ways, which for nr much larger than mr loses half of L1: take the
    # exact share.
    exact = (ways - 1) / (1 + nr / mr)
    kc = int(max(exact, ways_a) * way / (mr * itemsize))
    kc = max(64, kc // 8 * 8)

    own = l2.nbytes // max(1, l2.shared_by)
    ways, way = _WAYS[2], max(_LINE, own // _WAYS[2])
    ways_b = -(-(nr * kc * itemsize) // way)
    ways_a = max(1, ways - 1 - ways_b)
    mc = _down(ways_a * way // (kc * itemsize), mr)

    own = l3.nbytes // max(1, l3.shared_by) if l3 else 4 * own
    ways, way = _WAYS[3], max(_LINE, own // _WAYS[3])
    ways_a = -(-(mc * kc * itemsize) // way)
    nc = _down(max(1, ways - 1 - ways_a) * way // (kc * itemsize), nr)
    return Blocks(mc=mc, nc=nc, kc=kc, mr=mr, nr=nr, vector=vector)


def _down(value: int, unit: int) -> int:
    """`value` rounded down to a multiple of `unit`, at least one."""
    return max(1, value // unit) * unit


def flops_per_s(info: DeviceInfo, itemsize: int, threads: int = 0) -> float:
    """Nominal peak of `threads` cores (0: all of them)."""
    core = core_of(info)
    each = CLOCK_HZ * core.fma_per_cycle * 2 * (core.vector_nbytes // itemsize)
    return each * min(threads or info.compute_units, info.compute_units)


def threads_for(info: DeviceInfo, work_s: float) -> int:
    """How many threads `work_s` seconds of one core are worth: 1, or 0 for all of them."""
    return 1 if info.compute_units == 1 or work_s < 2 * WORTH_A_THREAD_S else 0


def roofline_s(info: DeviceInfo, flops: float, nbytes: float, itemsize: int, threads: int) -> float:
    """Seconds for `flops` operations and `nbytes` moved, whichever takes longer, and the call."""
    compute = flops / flops_per_s(info, itemsize, threads)
    return CALL_S + max(compute, nbytes / (BYTES_PER_S * min(2, threads or info.compute_units)))


@lru_cache(maxsize=1024)
def gemm(
    info: DeviceInfo, m: int, n: int, k: int, itemsize: int = 4, algo: str = "auto"
) -> TilePlan:
    """The plan of c[m, n] = a[m, k] @ b[k, n]."""
    tile = blocks(core_of(info), info.caches, itemsize)
    work = 2.0 * m * n * k
    threads = threads_for(info, work / flops_per_s(info, itemsize, 1))
    # Each block of a passes all of b once per nc columns, c is read and written once per kc.
    traffic = itemsize * (m * k * _pieces(n, tile.nc) + k * n + 2 * m * n * _pieces(k, tile.kc))
    return TilePlan(
        algo=algo,
        levels=tile.levels,
        vector=tile.vector,
        threads=threads,
        predicted_s=roofline_s(info, work, traffic, itemsize, threads),
    )


@lru_cache(maxsize=1024)
def conv2d(
    info: DeviceInfo, pixels: int, oc: int, terms: int, groups: int = 1, algo: str = "auto"
) -> TilePlan:
    """The plan of a convolution: `pixels` outputs a channel over the whole batch, `terms` products
    each."""
    return TilePlan(algo=algo)


def _pieces(size: int, of: int) -> int:
    return max(1, -(-size // of))
