"""What a CPU's cores compute with: figures of instruction sets, and nominal rates.

Called by blocking.py and conv2d.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkle_drv.types import DeviceInfo

Levels = tuple[tuple[int, int, int], tuple[int, int, int]]
"""Blocks and the tiles in them, of a TilePlan."""


@dataclass(frozen=True)
class Core:
    """What one core of an instruction set computes with."""

    vector_nbytes: int
    """Bytes of a vector register."""
    registers: int
    """Vector registers that code can name."""
    fma_latency: int
    """Cycles from a fused multiply-add to its result."""
    fma_per_cycle: int
    """Vector FMAs that begin in one cycle."""
    tile: tuple[int, int] | None = None
    """Rows, and vectors of columns, of native/cpu's micro-tile where it is not `micro_tile`'s."""
    small_b: int = 256 << 10
    """Up to so many bytes, b is read where it is: `SP_SMALL_B` of native/cpu."""
    far_rows: int = 0
    """Of a b that comes from memory, so many rows are read at a time, along them; 0: down panels.

    16 streams are what prefetchers follow (of 32, Zen 4 reads half as fast). Tiles of so few terms
    are worth their calls where vectors are long.
    """


CORES = {
    "avx512": Core(64, registers=32, fma_latency=4, fma_per_cycle=2, far_rows=16),
    "avx2": Core(32, registers=16, fma_latency=4, fma_per_cycle=2, small_b=24 << 10),
    "neon": Core(16, registers=32, fma_latency=4, fma_per_cycle=2, tile=(8, 3)),
    "ref": Core(16, registers=16, fma_latency=4, fma_per_cycle=1, small_b=24 << 10),
}
"""By instruction set, from the vendors' optimisation guides (Zen 4 and 5, Golden Cove, Neoverse).

"ref" is what a compiler makes of portable C for x86-64 or aarch64: 16-byte vectors.
"""

CLOCK_HZ = 3e9
"""Nominal clock of a core."""
WORTH_A_THREAD_S = 2e-6
"""Seconds of work each below which a second thread costs more than it brings."""


def core_of(info: DeviceInfo) -> Core:
    """What the cores of a device compute with; those of "ref" for a set that is not known."""
    return CORES.get(info.isa, CORES["ref"])


def micro_tile(core: Core, itemsize: int) -> tuple[int, int, int]:
    """(mr, nr, vector): the largest tile of accumulators that the registers hold.

    Low et al. ask for `mr * nr >= vector * latency * fma_per_cycle`, the fewest accumulators that
    hide the latency of an FMA. Here every register left beside two vectors of b and two of a (one
    in use, one on its way) accumulates, which meets that bound and needs fewer loads per FMA.
    """
    vector = core.vector_nbytes // itemsize
    rows, vectors = core.tile or ((core.registers - 4) // 2, 2)
    return rows, vectors * vector, vector


def threads_for(info: DeviceInfo, flops: float, itemsize: int) -> int:
    """How many threads so many operations are worth: 1, or 0 for all of them."""
    core = core_of(info)
    work_s = flops / (CLOCK_HZ * core.fma_per_cycle * 2 * (core.vector_nbytes // itemsize))
    return 1 if info.compute_units == 1 or work_s < 2 * WORTH_A_THREAD_S else 0


def down(value: int, unit: int) -> int:
    """`value` rounded down to a multiple of `unit`, at least one."""
    return max(1, value // unit) * unit


def pieces(size: int, of: int) -> int:
    """How many of these make up a size, at least one."""
    return max(1, -(-size // of))
