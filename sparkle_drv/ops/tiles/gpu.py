"""The tile model's branch for devices that run groups of threads: which of a few tiles, and whether
operands go through shared memory.

Pure functions without a clock. A device compiles a shader for every plan, so there are few tiles to
choose from. Called by `blocking.py` and `conv2d.py` for devices of kind "gpu", and by map and
reduce.

Two kinds of device:
* software (llvmpipe): threads are lanes of a CPU's vector, every load walks them one by one, and
  shared memory only copies. What counts is products a load: large tiles in registers (in memory,
  in truth: the stack of a core holds them well).
* hardware: operands are staged in shared memory, in the largest tile that fits and still gives the
  device enough groups. Untested on a GPU so far: the choice is by counting.
"""

from __future__ import annotations

from sparkle_drv.ops.shapes.geometry import Geometry
from sparkle_drv.types import DeviceInfo, TilePlan

from .cores import Levels

_LANES = 8  # threads that a software device runs as one vector
_MOST_ROUNDS = 65_535  # after which llvmpipe leaves the loops of a shader
# For sums of more terms than that, terms a round and few outputs a thread: both are written out,
# and llvmpipe compiles 128 products in a second or two, 512 in 20 s.
_LONG_STEP, _LONG_TILES = 16, ((1, 8),)


# What a term of a sum costs a group of llvmpipe, in nanoseconds: a load that eight rows share, one
# of a column, a product. And a launch, for each sum: its code is new to a core. Fitted to 248 times
# of 31 products and convolutions (Mesa 22.3, two cores): within 6 % of the best tile.
ROWS, COLUMN, PRODUCT, CODE = 20.0, 5.0, 0.75, 60.0

SOFTWARE_TILES = (
    (1, 16), (4, 8), (8, 4), (8, 8), (8, 16), (16, 8), (16, 16), (32, 8)
)  # fmt: skip
# No larger ones: a shader of 64 sums a thread takes 0.6 s to compile, of 256 3.7 s, of 512 17 s.

HARDWARE_TILES = (128, 8, 8), (64, 16, 4), (32, 16, 4)
"""In shared memory, largest first: rows and columns of a group, its terms, and rows and columns of
a thread."""
_ENOUGH_THREADS = 32768  # that keep a GPU busy, where it does not tell its units
_THREADS_A_UNIT = 512
_PARTS = 64  # of a row to reduce, where a device does not tell its units
WORTH_PARTS = 1 << 15
"""Elements a part from which cutting a row pays for the second launch."""
WORTH_COMPILING = 1 << 14
"""Elements from which an expression gets a shader of its own."""


def gemm(info: DeviceInfo, m: int, n: int, k: int, itemsize: int, algo: str) -> TilePlan:
    """The plan of c[m, n] = a[m, k] @ b[k, n]; algo "auto" chooses. Raises ValueError for a `k` of
    more terms than a software device adds up."""
    if info.software:
        bk = _terms_a_round(k, algo)
        if algo == "naive":
            return TilePlan(algo=algo)
        tiles = _LONG_TILES if bk == _LONG_STEP else SOFTWARE_TILES
        return _registers("blocked", info, tiles, (m, n, k), bk=bk)
    if algo == "naive":
        return TilePlan(algo=algo)
    algo = "shared" if algo == "auto" else algo
    return TilePlan(algo=algo, levels=_staged(info, m, n, itemsize), vector=4)


def _terms_a_round(k: int, algo: str) -> int:
    """So many that `k` terms and a thousand rounds of other loops stay within a shader's."""
    rounds = _MOST_ROUNDS - 1024
    most = rounds if algo == "naive" else rounds * _LONG_STEP
    _check_terms("k", k, most, algo)
    # The steps of four are vector loads, which strides may forbid: one term a round is possible.
    return 4 if k <= rounds else _LONG_STEP


def _check_terms(name: str, terms: int, most: int, algo: str, of: str = "a sum") -> None:
    if terms > most:
        raise ValueError(
            f"{name}: at most {most} terms of {of} are possible with algo {algo!r} on software "
            f"OpenGL, whose loops end after {_MOST_ROUNDS} rounds; got {terms}"
        )


def _check_sums(shape: Geometry, algo: str) -> None:
    """Does each output's sum of c / groups * kh * kw terms, with a thousand rounds of other loops,
    stay within a shader's?"""
    rounds = _MOST_ROUNDS - 1024
    kh, kw = shape.kernel
    # llvmpipe counts the rounds of each nested loop, and one more for each time that it ends. The
    # direct loop takes four terms a round when they are so many fours.
    nested = rounds * kh * kw // (kh * kw + 2 * kh + 3)
    long = rounds if shape.terms % 4 else 4 * rounds
    most = {"naive": nested, "im2col": rounds}.get(algo, long)
    _check_terms("w", shape.terms, most, algo, "a sum (c / groups * kh * kw)")


def conv2d(info: DeviceInfo, shape: Geometry, algo: str) -> TilePlan:
    """The plan of a convolution, seen as channels x pixels x terms; algo "auto" chooses.

    Raises ValueError for sums that are longer than a shader's loops may go round.
    """
    if info.software:
        _check_sums(shape, algo)
    if algo == "naive":
        return TilePlan(algo=algo)
    channels, pixels = shape.oc // shape.groups, shape.n * shape.size[0] * shape.size[1]
    if info.software and algo != "im2col":
        sizes = channels, pixels, shape.terms
        # Weights four at a time keep four times as many numbers at hand: slower everywhere, but a
        # quarter of the rounds, and llvmpipe leaves a shader's loops after 65535.
        vector = 4 if shape.terms > _MOST_ROUNDS else 1
        return _registers("direct", info, SOFTWARE_TILES, sizes, shape.groups, vector)
    algo = "im2col" if algo == "auto" else algo
    return TilePlan(algo=algo, levels=_staged(info, channels, pixels, 4), vector=4)


def _registers(
    algo: str,
    info: DeviceInfo,
    tiles: tuple[tuple[int, int], ...],
    sizes: tuple[int, int, int],
    parts: int = 1,
    vector: int = 4,
    bk: int = 4,
) -> TilePlan:
    """The quickest of `tiles` for `parts` products of these sizes: one vector is one group, and
    groups are shared out among the cores."""
    m, n, k = sizes

    def cost_ns(tile: tuple[int, int]) -> float:
        tm, tn = tile
        groups = parts * -(-m // tm) * -(-n // (tn * _LANES))
        turns = -(-groups // max(1, info.compute_units))
        term = -(-tm // _LANES) * ROWS + tn * COLUMN + tm * tn * PRODUCT
        return tm * tn * CODE + turns * k * term

    tm, tn = min(tiles, key=cost_ns)
    return TilePlan(algo=algo, levels=((tm, tn * _LANES, bk), (tm, tn, 1)), vector=vector)


def reduce(info: DeviceInfo) -> TilePlan:
    """The plan of a reduction: one group does a whole column; on hardware, the larger it is, the
    more loads are on their way."""
    threads = min(256 if info.software else 1024, max(1, info.max_group_size))
    return TilePlan(levels=((threads, 1, 1),), vector=4)


def reduce_parts(info: DeviceInfo, n: int) -> int:
    """In how many parts a device should reduce one row of n elements; 1: as a whole.

    One group of a gpu does a row: a long one is cut, so that every unit has some, into multiples of
    four for vector loads.
    """
    if info.kind != "gpu":
        return 1
    parts = 4 * info.compute_units if info.software or info.compute_units > 1 else _PARTS
    return parts if n >= WORTH_PARTS * parts else 1


def map(info: DeviceInfo, program: tuple[int, ...], n: int) -> TilePlan | None:
    """The plan of an expression over n elements, its program as words; None: interpret it.

    Where kernels are text, an expression becomes text too, and where their machine code is written
    here, code, unless it is over so little that making it (0.1 s) is never earned back.
    """
    if n < WORTH_COMPILING or not info.language:
        return None
    return TilePlan(program=program)


def _staged(info: DeviceInfo, m: int, n: int, itemsize: int) -> Levels:
    """The largest tile that the device can do and that still makes threads for all its units; else
    the smallest it can do."""
    wanted = info.compute_units * _THREADS_A_UNIT if info.compute_units > 1 else _ENOUGH_THREADS
    best = 16, 8, 4
    for side, terms, sums in HARDWARE_TILES:
        group = (side // sums) ** 2
        fits = 2 * side * terms * itemsize <= info.max_shared_nbytes
        if fits and group <= info.max_group_size:
            best = side, terms, sums
            if -(-m // side) * -(-n // side) * group >= wanted:
                break
    side, terms, sums = best
    return (side, side, terms), (sums, sums, 1)
