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
from .cores import Levels, down

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
LEAST_TILES = 42
"""Of a group, where weights come from afar: they are read again for each."""


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
    name = min(cost, key=cost.__getitem__)
    return name, cost[name]


def levels(micro: tuple[int, int], caches: Caches, shape: Geometry, m: int) -> Levels:
    """((tiles of a group, output channels multiplied together, 0), (tiles, channels, 1)).

    `micro` is the micro-tile: tiles by output channels. The transformed patches of a group take
    half of L2, products that wait for their transform a quarter. F(6x6), whose patches are nearly
    twice as large, takes one micro-tile: its weights take the more of L2.
    """
    rows, panel = micro
    l2, of_a_channel = own(caches, 2), 4 * frequencies(shape, m)
    least = -(-LEAST_TILES // rows) * rows if _far(caches, shape, m) else rows
    most = max(down(l2 // 2 // (of_a_channel * shape.c), rows), least)
    group = min(rows if m == 6 else most, tiles_of(shape, m))
    wide = down(l2 // 4 // (of_a_channel * group), panel)
    return (group, min(wide, shape.oc), 0), (min(rows, group), panel, 1)


def _far(caches: Caches, shape: Geometry, m: int) -> bool:
    """Do the transformed weights take more than an eighth of L3?"""
    return 4 * (m + 2) ** 2 * shape.c * shape.oc > level(caches, 3).nbytes // 8
