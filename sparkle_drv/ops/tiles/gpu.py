"""The tile model for devices that run groups of threads: it chooses a tile, and whether operands go
through shared memory.

The functions use no clock. A device compiles a shader for every plan, so there are only a few
tiles. blocking.py and conv2d.py call this for devices of kind "gpu"; map and reduce call it too.

There are two kinds of device:
* software (llvmpipe): threads are lanes of a CPU's vector. A load is done lane by lane, and shared
  memory only adds a copy. So the best tile is a large one in registers, which does many products
  per load. (llvmpipe keeps these registers on the stack, which a core's caches hold.)
* hardware: operands are staged in shared memory. The model takes the largest tile that fits and
  still gives the device enough threads. No GPU has confirmed this choice yet.
"""

from __future__ import annotations

from sparkle_drv.ops.shapes.geometry import Geometry
from sparkle_drv.types import DeviceInfo, TilePlan

from .cores import Levels

_LANES = 8  # threads that a software device runs as one vector
_MOST_ROUNDS = 65_535  # llvmpipe ends the loops of a shader after this many iterations
# For sums that have more terms than _MOST_ROUNDS: the terms per iteration, and tiles with few
# outputs per thread. The tiles are small because the shader unrolls terms and outputs. llvmpipe
# compiles 128 unrolled products in 1 to 2 s, but 512 in 20 s.
_LONG_STEP, _LONG_TILES = 16, ((1, 8),)


# Costs in ns of one group on llvmpipe. Each term of a sum costs ROWS for a load that eight rows
# share, COLUMN for a load of a column, PRODUCT for a product. Each launch also costs CODE per sum,
# because the code must first get into a core's caches. The costs were fitted to 248 times of 31
# products and convolutions (Mesa 22.3, two cores). The chosen tile is at most 6 % slower than the
# best tile.
ROWS, COLUMN, PRODUCT, CODE = 20.0, 5.0, 0.75, 60.0

# Shaders with larger tiles take too long to compile. With 64 sums per thread it takes 0.6 s, with
# 256 sums 3.7 s, with 512 sums 17 s.
SOFTWARE_TILES = (
    (1, 16), (4, 8), (8, 4), (8, 8), (8, 16), (16, 8), (16, 16), (32, 8)
)  # fmt: skip

HARDWARE_TILES = (128, 8, 8), (64, 16, 4), (32, 16, 4)
"""Tiles in shared memory, largest first: (rows and columns of a group, terms, rows and columns of a
thread)."""
_ENOUGH_THREADS = 32768  # enough threads for a GPU whose number of compute units is unknown
_THREADS_A_UNIT = 512
# into how many parts a reduction cuts a row, if the device's number of compute units is unknown
_PARTS = 64
WORTH_PARTS = 1 << 15
"""The least elements of a part of a row. Smaller parts do not save the time that the second launch
costs."""
WORTH_COMPILING = 1 << 14
"""The least elements for which an expression gets a shader of its own."""


def gemm(info: DeviceInfo, m: int, n: int, k: int, itemsize: int, algo: str) -> TilePlan:
    """Returns the plan of c[m, n] = a[m, k] @ b[k, n].

    algo "auto" stands for "blocked" on software OpenGL and for "shared" on a GPU. Raises ValueError
    if a software device cannot add up `k` terms.
    """
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
    """Returns how many terms of a sum one iteration of a shader's loop adds.

    llvmpipe ends the loops of a shader after _MOST_ROUNDS iterations in all. 1024 of them are left
    for other loops; `k` terms must not take more than the rest. Raises ValueError if `k` is too
    large.
    """
    rounds = _MOST_ROUNDS - 1024
    most = rounds if algo == "naive" else rounds * _LONG_STEP
    _check_terms("k", k, most, algo)
    # An iteration adds four terms only with vector loads, which strides may rule out. So `k` terms
    # must not exceed the limit of iterations even at one term per iteration.
    return 4 if k <= rounds else _LONG_STEP


def _check_terms(name: str, terms: int, most: int, algo: str, of: str = "a sum") -> None:
    if terms > most:
        raise ValueError(
            f"{name}: expected at most {most} terms of {of} with algo {algo!r} on software OpenGL, "
            f"whose loops end after {_MOST_ROUNDS} rounds, got {terms}"
        )


def _check_sums(shape: Geometry, algo: str) -> None:
    """Raises ValueError if the sum of an output needs more iterations than a loop may have.

    A sum has c / groups * kh * kw terms. Of the iterations that llvmpipe allows a shader, 1024 are
    left for other loops.
    """
    rounds = _MOST_ROUNDS - 1024
    kh, kw = shape.kernel
    # llvmpipe counts the iterations of each nested loop, and one more each time that a loop ends.
    # The loop of "direct" takes four terms per iteration if their number is a multiple of four.
    nested = rounds * kh * kw // (kh * kw + 2 * kh + 3)
    long = rounds if shape.terms % 4 else 4 * rounds
    most = {"naive": nested, "im2col": rounds}.get(algo, long)
    _check_terms("w", shape.terms, most, algo, "a sum (c / groups * kh * kw)")


def conv2d(info: DeviceInfo, shape: Geometry, algo: str) -> TilePlan:
    """Returns the plan of a convolution, a product of channels x pixels x terms.

    With algo "auto" this function chooses between direct convolution (on software OpenGL) and
    im2col (on a GPU).

    Raises ValueError if a sum has more terms than the loops of a shader may add.
    """
    if info.software:
        _check_sums(shape, algo)
    if algo == "naive":
        return TilePlan(algo=algo)
    channels, pixels = shape.oc // shape.groups, shape.n * shape.size[0] * shape.size[1]
    if info.software and algo != "im2col":
        sizes = channels, pixels, shape.terms
        # Four weights per iteration need four times as many registers, which is slower for all
        # sizes. So a shader takes four only if one weight per iteration would need more than 65535
        # iterations.
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
    """Returns the plan with the tile of `tiles` that is fastest on a software device.

    The work is `parts` matrix products of the sizes (m, n, k). The model assumes groups of _LANES
    threads, which run as one vector, and divides the groups among the cores.
    """
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
    """Returns the plan of a reduction: all elements of one result are reduced by the same group.

    On hardware a larger group has more loads in flight.

    >>> tiles.reduce(dev.info).source
    'model'
    """
    threads = min(256 if info.software else 1024, max(1, info.max_group_size))
    return TilePlan(levels=((threads, 1, 1),), vector=4)


def reduce_parts(info: DeviceInfo, n: int) -> int:
    """Returns the number of parts in which a device should reduce one row of n elements.

    1 means that the row is not cut. One group of a gpu reduces a row or part. A long row is cut so
    that every compute unit has work. The size of a part is a multiple of four elements, for vector
    loads.

    >>> tiles.reduce_parts(dev.info, n=1000)
    1
    """
    if info.kind != "gpu":
        return 1
    parts = 4 * info.compute_units if info.software or info.compute_units > 1 else _PARTS
    return parts if n >= WORTH_PARTS * parts else 1


def map(info: DeviceInfo, program: tuple[int, ...], n: int) -> TilePlan | None:
    """Returns the plan of an expression over n elements, or None if a kernel shall interpret it.

    The plan has `program`, the instructions of the expression. From such a plan a kernel of its own
    is generated for the expression, as text or machine code. None is returned if this package
    generates no kernels for the device. It is also returned for few elements, because the time to
    make such a kernel (0.1 s) would never pay.

    >>> tiles.map(dev.info, (0, 1), n=1000) is None
    True
    """
    if n < WORTH_COMPILING or not info.language:
        return None
    return TilePlan(program=program)


def _staged(info: DeviceInfo, m: int, n: int, itemsize: int) -> Levels:
    """Returns the tile sizes (of a group, of a thread) of the largest tile that gives enough
    threads for all compute units.

    If no tile does, the smallest tile that the device can run is used.
    """
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
