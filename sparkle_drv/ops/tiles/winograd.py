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

from .caches import Caches, own, whole
from .cores import Levels

EDGES = {"winograd": 4, "winograd2": 2, "winograd6": 6}
"""m, by the algorithm's name."""

# Measured on Zen 4 (avx512 and avx2), in FMAs of a vector.
TRANSFORM = 9.0
"""Of one frequency of one vector of channels, input or output; twice as many where vectors are
shorter than 64 bytes: those FMAs take half as long, loads, turns and stores do not."""
TRANSFORM_SIX = 12.0
"""Of F(6x6); it is not chosen where vectors are shorter than 32 bytes, not measured."""
FAR_SIX = 1.12
"""How much dearer the products of F(6x6), whose groups of tiles are small and all read the weights,
are with weights of more than an eighth of L3."""
WORTH_SIX, WORTH_SIX_SHORT = 1.02, 1.05
"""How much dearer others must be before its rounding errors, four times as large, are worth it;
with vectors of 32 bytes, where it is not known as well."""
SEEN_SIX = 0.5
"""The part of the outputs, at least, that see the images: others are 0, or the bias, make the
rms smaller, and share tiles, and so F(6x6)'s errors, with those that do."""
LOADS, FAR_LOADS = 3.0, 10.0
"""What reading a vector of weights costs a micro-kernel at least, however few tiles it serves; the
second, of weights that L3 does not hold."""
TIE = 0.9
"""With stride 2 F(4x4) must cost less than this part of F(2x2), whose weights are fewer by half."""
LONG = 16
"""Lanes of a vector of 64 bytes."""
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
    down, across = ([(m + 1, -(-size // m)), (1, size)] for size in shape.size)
    return [(i * j, shape.n * rows * columns) for i, rows in down for j, columns in across]


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
    least = FAR_LOADS if _weights(shape, m) > whole(caches, 3) else LOADS
    each = sum(matrices * max(rows, least) for matrices, rows in parts(shape, m))
    if m == 6 and _weights(shape, m) > whole(caches, 3) // 8:
        each *= FAR_SIX
    transform = TRANSFORM_SIX if m == 6 else TRANSFORM
    transform *= 1 if lanes >= LONG else 2
    transforms = frequencies(shape, m) * tiles_of(shape, m) * (c_vectors + oc_vectors)
    return each * shape.c * oc_vectors + transform * transforms


def best(lanes: int, caches: Caches, shape: Geometry) -> tuple[str, float]:
    """The algorithm that costs less, and its `fmas`."""
    cost = {name: fmas(lanes, caches, shape, m) for name, m in EDGES.items()}
    tie = TIE if shape.stride == (2, 2) else 1.0
    name = "winograd" if cost["winograd"] <= tie * cost["winograd2"] else "winograd2"
    worth = WORTH_SIX if lanes >= LONG else WORTH_SIX_SHORT
    if 2 * lanes >= LONG and cost["winograd6"] * worth < cost[name] and _seen(shape) >= SEEN_SIX:
        name = "winograd6"
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
    if m == 6:
        return min(rows, tiles_of(shape, m))
    far = _weights(shape, m) > whole(caches, 3) // 3
    least = -(-FAR_TILES // rows) if far else 2 if shape.stride == (1, 1) else 1
    patch = 4 * frequencies(shape, m) * shape.c
    group = max(own(caches, 2) // 2 // patch // rows, least) * rows
    tiles = tiles_of(shape, m)
    if group < tiles < 3 * group // 2:
        return tiles  # in two, weights would be read twice for half of a group
    return min(group, tiles)


def _seen(shape: Geometry) -> float:
    """The part of the outputs that see a pixel of the image, of 3x3 with stride 1."""
    seen = 1.0
    for size, pad, of in zip(shape.size, shape.pad, (shape.h, shape.w), strict=True):
        seen *= max(min(size, pad + of) - max(pad - 2, 0), 0) / size
    return seen


def _weights(shape: Geometry, m: int) -> int:
    """Bytes of the transformed weights."""
    return 4 * (m + 2) ** 2 * shape.c * shape.oc
