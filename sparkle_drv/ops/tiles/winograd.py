"""The tile model of Winograd convolutions on a cpu: their costs and their groups of tiles.

F(m x m, 3x3) makes m x m outputs with (m + 2)^2 multiplications per channel instead of 9 m^2 (A.
Lavin, S. Gray: Fast Algorithms for Convolutional Neural Networks, CVPR 2016). In exchange, F(m x m)
has costs that a direct convolution does not have: transforms, outputs past an image's edge, and
more weights. F(4x4) has 4 times as many weights as a direct convolution, F(2x2) 1.8 times, F(6x6)
7.1 times.

With stride 2, F(m x m) takes (2 m + 1)^2 multiplications for as many outputs, and F(6x6) does not
exist; see native/cpu/conv/winograd/winograd.h. tiles/conv2d.py calls this file, and the operation
conv2d calls `fits`.
"""

from __future__ import annotations

from sparkle_drv.ops.shapes.geometry import Geometry

from .caches import Caches, level, own
from .cores import Levels

EDGES = {"winograd": 4, "winograd2": 2, "winograd6": 6}
"""m of F(m x m), by the algorithm's name."""

# Costs of the steps of a Winograd convolution, in vector FMAs. They were fitted to times of 63
# convolutions on Zen 5 (avx512 and avx2).
TRANSFORM, TRANSFORM_SIX = 9.0, 12.0
"""Cost of transforming one frequency of one vector of channels, input or output. The second number
is for F(6x6)."""
LOADS = 8.0
"""The least cost of reading a vector of weights in a micro-kernel, even for few tiles."""
FAR_SIX = 1.12
"""Cost factor for the products of F(6x6) if the weights take more than an eighth of L3. Its groups
of tiles are small, and each group reads all weights."""
TIE = 0.9
"""With stride 2, F(4x4) must cost less than this part of F(2x2), which has half as many weights."""
FAR_TILES = 56
"""The fewest tiles of a group if weights take more than a third of L3, because each group reads all
weights."""
WIDE = 64
"""Output channels multiplied together if each pass reads the transformed patches from L3."""


def fits(shape: Geometry, m: int) -> bool:
    """Returns whether F(m x m) can compute this convolution. F(6x6) needs stride 1."""
    return shape.winograd and (m != 6 or shape.stride == (1, 1))


def tiles_of(shape: Geometry, m: int) -> int:
    """Returns the number of tiles of m x m outputs in all images."""
    return shape.n * -(-shape.size[0] // m) * -(-shape.size[1] // m)


def parts(shape: Geometry, m: int) -> list[tuple[int, int]]:
    """Returns a list of pairs: how many matrices of weights, and the rows multiplied with each.

    The output tiles of the convolution are m x m. A row has the input channels at one point of one
    transformed tile, or at one pixel that is not transformed. The rows of all images are counted.
    """
    if shape.stride == (1, 1):
        return [((m + 2) ** 2, tiles_of(shape, m))]
    # With stride 2, the even and the odd pixels are computed separately in each dimension. The even
    # pixels of a tile are transformed to m + 1 points, each with a matrix of its own. The odd
    # pixels are not transformed, and one matrix serves all of them.
    height, width = ([(m + 1, -(-size // m)), (1, size)] for size in shape.size)
    return [(i * j, shape.n * rows * columns) for i, rows in height for j, columns in width]


def frequencies(shape: Geometry, m: int) -> int:
    """Returns the number of products per tile and channel. A tile reads that many input pixels."""
    return ((m + 2) if shape.stride == (1, 1) else (2 * m + 1)) ** 2


def flops(shape: Geometry, m: int) -> float:
    """Returns the number of floating-point operations of the matrix products."""
    return 2.0 * sum(matrices * rows for matrices, rows in parts(shape, m)) * shape.c * shape.oc


def fmas(lanes: int, caches: Caches, shape: Geometry, m: int) -> float:
    """Returns the cost on one core in vector FMAs; infinite if F(m x m) cannot be used."""
    if not fits(shape, m):
        return float("inf")
    c_vectors, oc_vectors = -(-shape.c // lanes), -(-shape.oc // lanes)
    each = sum(matrices * max(rows, LOADS) for matrices, rows in parts(shape, m))
    if m == 6 and _far(caches, shape, m):
        each *= FAR_SIX
    transforms = frequencies(shape, m) * tiles_of(shape, m) * (c_vectors + oc_vectors)
    return each * shape.c * oc_vectors + transforms * (TRANSFORM_SIX if m == 6 else TRANSFORM)


def best(lanes: int, caches: Caches, shape: Geometry) -> tuple[str, float]:
    """Returns the cheapest algorithm and its `fmas`.

    F(6x6) is considered only in cases in which it was faster in measurements: 64 channels or more,
    and vectors of 32 bytes or more. Also, every output must read a pixel of the image. Outputs that
    read only padding are 0 or the bias. They lower the rms to which errors are compared, so the
    errors of F(6x6) would look larger.
    """
    seen = all(size <= of + 2 for size, of in zip(shape.size, (shape.h, shape.w), strict=True))
    six = seen and lanes >= 8 and shape.c >= 64
    names = EDGES if six else ("winograd", "winograd2")
    cost = {name: fmas(lanes, caches, shape, EDGES[name]) for name in names}
    if shape.stride == (2, 2):
        cost["winograd2"] *= TIE
    name = min(cost, key=cost.__getitem__)
    return name, cost[name]


def levels(micro: tuple[int, int], caches: Caches, shape: Geometry, m: int) -> Levels:
    """Returns ((tiles of a group, output channels multiplied together, 0), (tiles, channels, 1)).

    A group is a number of output tiles that are computed together. The second triple is the
    micro-tile, whose tiles do not exceed a group. `micro` is the micro-tile (tiles, output
    channels). The products of a group take a quarter of L2, until they are transformed to
    outputs. If transformed patches (the inputs of tiles) do not fit into L2, at least WIDE output
    channels are multiplied together.
    """
    rows, panel = micro
    group = _group(rows, caches, shape, m)
    l2, of_a_channel = own(caches, 2), 4 * frequencies(shape, m) * group
    least = -(-WIDE // panel) if of_a_channel * shape.c > l2 else 1
    wide = max(l2 // 4 // (of_a_channel * panel), least) * panel
    return (group, min(wide, shape.oc), 0), (min(rows, group), panel, 1)


def _group(rows: int, caches: Caches, shape: Geometry, m: int) -> int:
    """Returns the number of tiles of a group, a multiple of the micro-tile's `rows` if possible.

    A group's transformed patches (inputs of the tiles) take half of L2, but a group has at least
    * two micro-tiles, so that weights are read half as often;
    * one micro-tile with stride 2, where each tile uses a matrix of weights for several rows;
    * FAR_TILES tiles, if the weights take more than a third of L3.
    A group of F(6x6) has one micro-tile: its patches are nearly twice as large, and the weights
    need the rest of L2.
    """
    tiles = tiles_of(shape, m)
    if m == 6:
        return min(rows, tiles)
    least = 2 if shape.stride == (1, 1) else 1
    if _far(caches, shape, m, 3):
        least = -(-FAR_TILES // rows)
    patch = 4 * frequencies(shape, m) * shape.c
    group = max(own(caches, 2) // 2 // patch // rows, least) * rows
    if group < tiles < 3 * group // 2:
        return tiles  # one group of tiles: a small second group would read all weights again
    return min(group, tiles)


def _far(caches: Caches, shape: Geometry, m: int, part: int = 8) -> bool:
    """Returns whether the transformed weights take more than 1 / `part` of L3."""
    return 4 * (m + 2) ** 2 * shape.c * shape.oc > level(caches, 3).nbytes // part
