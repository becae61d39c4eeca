"""The tile model of Winograd convolutions on a cpu: what they cost, and in what groups of tiles.

F(m x m, 3x3) makes m x m outputs with (m + 2)^2 multiplications a channel instead of 9 m^2 (A.
Lavin, S. Gray: Fast Algorithms for Convolutional Neural Networks, CVPR 2016); what it saves there
it pays in part for transforms, for outputs past an image's edge, and for weights that are 4 times
(F(4x4)), 1.8 times (F(2x2)) or 7.1 times (F(6x6)) as many. With stride 2, for which there is no
F(6x6), it is (2 m + 1)^2 of them for as many outputs; see native/cpu/conv/winograd/winograd.h.
Pure functions over plain data. Called by `conv2d.py`, and by conv2d for what fits.
"""

from __future__ import annotations

from sparkle_drv.ops.shapes.geometry import Geometry

from .caches import Caches, level, own
from .cores import Levels

EDGES = {"winograd": 4, "winograd2": 2, "winograd6": 6}
"""m, by the algorithm's name."""

# Fitted to times of 63 convolutions on Zen 5 (avx512 and avx2), in FMAs of a vector.
TRANSFORM, TRANSFORM_SIX = 9.0, 12.0
"""Of one frequency of one vector of channels, input or output; of F(6x6)."""
LOADS = 8.0
"""What reading a vector of weights costs a micro-kernel at least, however few tiles it serves."""
FAR_SIX = 1.12
"""How much dearer the products of F(6x6), whose groups of tiles are small and all read the weights,
are with weights from afar."""
TIE = 0.9
"""With stride 2 F(4x4) must cost less than this part of F(2x2), whose weights are fewer by half."""
FAR_TILES = 56
"""Of a group at least, where weights take more than a third of L3: they are read again for each."""
WIDE = 64
"""Output channels that are multiplied together where transformed patches come from L3 for each."""


def fits(shape: Geometry, m: int) -> bool:
    """Is there F(m x m) for it? F(6x6) has stride 1 only."""
    return shape.winograd and (m != 6 or shape.stride == (1, 1))


def tiles_of(shape: Geometry, m: int) -> int:
    """Tiles of m x m outputs of all images."""
    return shape.n * -(-shape.size[0] // m) * -(-shape.size[1] // m)


def parts(shape: Geometry, m: int) -> list[tuple[int, int]]:
    """(matrices of weights, rows that each is multiplied with) of all images."""
    if shape.stride == (1, 1):
        return [((m + 2) ** 2, tiles_of(shape, m))]
    # Of each dimension: points of tiles, and the odd pixels of outputs, which share their weights.
    height, width = ([(m + 1, -(-size // m)), (1, size)] for size in shape.size)
    return [(i * j, shape.n * rows * columns) for i, rows in height for j, columns in width]


def frequencies(shape: Geometry, m: int) -> int:
    """Products of a tile, and pixels of its patch."""
    return ((m + 2) if shape.stride == (1, 1) else (2 * m + 1)) ** 2


def flops(shape: Geometry, m: int) -> float:
    """Floating-point operations of the matrix products."""
    return 2.0 * sum(matrices * rows for matrices, rows in parts(shape, m)) * shape.c * shape.oc


def fmas(lanes: int, caches: Caches, shape: Geometry, m: int) -> float:
    """Vector FMAs of one core, and what costs as much; infinite for other convolutions."""
    if not fits(shape, m):
        return float("inf")
    c_vectors, oc_vectors = -(-shape.c // lanes), -(-shape.oc // lanes)
    each = sum(matrices * max(rows, LOADS) for matrices, rows in parts(shape, m))
    if m == 6 and _far(caches, shape, m):
        each *= FAR_SIX
    transforms = frequencies(shape, m) * tiles_of(shape, m) * (c_vectors + oc_vectors)
    return each * shape.c * oc_vectors + transforms * (TRANSFORM_SIX if m == 6 else TRANSFORM)


def best(lanes: int, caches: Caches, shape: Geometry) -> tuple[str, float]:
    """The algorithm that costs less, and its `fmas`.

    F(6x6) only where it was quicker, with enough channels and vectors of 32 bytes or more, and
    where outputs see the image: others are 0, or the bias, and make the rms smaller that its errors
    are held against.
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
    """((tiles of a group, output channels multiplied together, 0), (tiles, channels, 1)).

    `micro` is the micro-tile: tiles by output channels. Products that wait for their transform take
    a quarter of L2; of WIDE channels at least where patches do not fit it.
    """
    rows, panel = micro
    group = _group(rows, caches, shape, m)
    l2, of_a_channel = own(caches, 2), 4 * frequencies(shape, m) * group
    least = -(-WIDE // panel) if of_a_channel * shape.c > l2 else 1
    wide = max(l2 // 4 // (of_a_channel * panel), least) * panel
    return (group, min(wide, shape.oc), 0), (min(rows, group), panel, 1)


def _group(rows: int, caches: Caches, shape: Geometry, m: int) -> int:
    """Tiles of a group, by micro-tiles of `rows`.

    Its transformed patches take half of L2, but it has two micro-tiles at least, so that weights
    are read from afar half as often; with stride 2 one, since most matrices of weights are
    multiplied with several rows of a tile; and FAR_TILES where weights come from farther. F(6x6),
    whose patches are nearly twice as large, takes one: its weights take the more of L2.
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
        return tiles  # in two, weights would be read twice for half of a group
    return min(group, tiles)


def _far(caches: Caches, shape: Geometry, m: int, part: int = 8) -> bool:
    """Do the transformed weights take more than this part of L3?"""
    return 4 * (m + 2) ** 2 * shape.c * shape.oc > level(caches, 3).nbytes // part
