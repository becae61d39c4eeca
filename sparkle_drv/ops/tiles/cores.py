"""Registers, latencies and FMAs per cycle of CPU cores, by instruction set, for tile plans.

This file also has a nominal clock and the least work that pays for a thread. blocking.py and
conv2d.py use it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkle_drv.types import DeviceInfo

Levels = tuple[tuple[int, int, int], tuple[int, int, int]]
"""Blocks, and the tiles in them: the levels of a TilePlan."""


@dataclass(frozen=True)
class Core:
    """Properties of one core's vector unit, from which tile plans are computed. Each instruction
    set has its own Core.
    """

    vector_nbytes: int
    """Bytes of a vector register."""
    registers: int
    """The number of vector registers."""
    fma_latency: int
    """Latency of a fused multiply-add in cycles."""
    fma_per_cycle: int
    """Vector FMAs that start per cycle."""
    tile: tuple[int, int] | None = None
    """(rows, vectors of columns) of native/cpu's micro-tile if it differs from `micro_tile`'s."""
    small_b: int = 256 << 10
    """A b of at most this many bytes is read in place: `SP_SMALL_B` of native/cpu."""
    far_rows: int = 0
    """Rows of b that are read together, along the rows, if b comes from memory; 0: read by panels.

    Prefetchers follow 16 streams; with 32 streams Zen 4 reads half as fast. Tiles with only this
    many terms pay only with long vectors.
    """


CORES = {
    "avx512": Core(64, registers=32, fma_latency=4, fma_per_cycle=2, far_rows=16),
    "avx2": Core(32, registers=16, fma_latency=4, fma_per_cycle=2, small_b=24 << 10),
    "neon": Core(16, registers=32, fma_latency=4, fma_per_cycle=2, tile=(8, 3)),
    "ref": Core(16, registers=16, fma_latency=4, fma_per_cycle=1, small_b=24 << 10),
}
"""Cores by instruction set, from the vendors' optimisation guides (Zen 4 and 5, Golden Cove,
Neoverse).

"ref" is portable C as compiled for x86-64 or aarch64, with 16-byte vectors.
"""

CLOCK_HZ = 3e9
"""Nominal clock of a core."""
WORTH_A_THREAD_S = 2e-6
"""Seconds of work per thread below which a second thread does not pay."""


def core_of(info: DeviceInfo) -> Core:
    """Returns the Core for the instruction set of a device; that of "ref" if the set is unknown.

    >>> tiles.core_of(dev.info).vector_nbytes >= 16
    True
    """
    return CORES.get(info.isa, CORES["ref"])


def micro_tile(core: Core, itemsize: int) -> tuple[int, int, int]:
    """Returns (mr, nr, vector) of the largest tile of accumulators that the registers hold.

    Low et al. (see blocking.py) require `mr * nr >= vector * latency * fma_per_cycle`, the fewest
    accumulators that hide the latency of an FMA. Here two vectors of b and two of a (one in use,
    one being loaded) take registers. All other registers are accumulators. Such a tile meets the
    requirement, and needs fewer loads per FMA than the smallest tile that does.

    >>> tiles.micro_tile(tiles.CORES["avx2"], 4)
    (6, 16, 8)
    """
    vector = core.vector_nbytes // itemsize
    rows, vectors = core.tile or ((core.registers - 4) // 2, 2)
    return rows, vectors * vector, vector


def threads_for(info: DeviceInfo, flops: float, itemsize: int) -> int:
    """Returns the number of threads for this many operations: 1, or 0 for all threads."""
    core = core_of(info)
    work_s = flops / (CLOCK_HZ * core.fma_per_cycle * 2 * (core.vector_nbytes // itemsize))
    return 1 if info.compute_units == 1 or work_s < 2 * WORTH_A_THREAD_S else 0


def down(value: int, unit: int) -> int:
    """Returns `value` rounded down to a multiple of `unit`, at least one `unit`."""
    return max(1, value // unit) * unit


def pieces(size: int, of: int) -> int:
    """Returns `size` divided by `of`, rounded up, at least 1."""
    return max(1, -(-size // of))
