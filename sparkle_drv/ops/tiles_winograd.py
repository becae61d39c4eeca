"""The tile model of Winograd convolutions on a cpu: what they cost, and in what groups of tiles.

F(m x m, 3x3) makes m x m outputs with (m + 2)^2 multiplications a channel instead of 9 m^2 (A.
Lavin, S. Gray: Fast Algorithms for Convolutional Neural Networks, CVPR 2016); what it saves there
it pays in part for transforms, for outputs past an image's edge, and for weights that are 4 times
(F(4x4)), 1.8 times (F(2x2)) or 7.1 times (F(6x6)) as many. Pure functions over plain data. Called
by `tiles_conv2d.py`.
"""

from __future__ import annotations

from sparkle_drv.types import CacheLevel

from .geometry import Geometry

EDGES = {"winograd": 4, "winograd2": 2, "winograd6": 6}
"""m, by the algorithm's name."""

# Measured on Zen 4 (avx512 and avx2), in FMAs of a vector.
TRANSFORM = 9.0
"""Of one frequency of one vector of channels, input or output; twice as many where vectors are
shorter than 64 bytes: those FMAs take half as long, loads, turns and stores do not."""
TRANSFORM_SIX = 12.0
"""Of F(6x6), where vectors have 64 bytes; it is not chosen where they are shorter, not measured."""
FAR_SIX = 1.12
"""How much dearer the products of F(6x6), whose groups of tiles are small and all read the weights,
are with weights of more than an eighth of L3."""
WORTH_SIX = 1.02
"""How much dearer others must be before its rounding errors, four times as large, are worth it."""
LOADS = 3.0
"""What reading a vector of weights costs a micro-kernel at least, however few tiles it serves."""
LOADS_L3, LOADS_FAR = 5.0, 10.0
"""The same for weights that L2 does not hold, or L3 neither."""
DEFAULT_L2, DEFAULT_L3 = 256 << 10, 4 << 20
"""Taken when a device does not tell its caches."""


def tiles_of(shape: Geometry, m: int) -> int:
    """Tiles of m x m outputs of all images."""
    return shape.n * -(-shape.size[0] // m) * -(-shape.size[1] // m)


def flops(shape: Geometry, m: int) -> float:
    """Floating-point operations of the matrix products."""
    return 2.0 * (m + 2) ** 2 * tiles_of(shape, m) * shape.c * shape.oc


def fmas(vector_nbytes: int, caches: tuple[CacheLevel, ...], shape: Geometry, m: int) -> float:
    """Vector FMAs of one core, and what costs as much; infinite for other convolutions."""
    if not shape.winograd:
        return float("inf")
    lanes = vector_nbytes // 4
    frequencies, tiles = (m + 2) ** 2, tiles_of(shape, m)
    c_vectors, oc_vectors = -(-shape.c // lanes), -(-shape.oc // lanes)
    weights = 4 * frequencies * shape.c * shape.oc
    if weights <= _own(caches, 2, DEFAULT_L2):
        loads = LOADS
    else:
        loads = LOADS_L3 if weights <= _whole(caches, 3, DEFAULT_L3) else LOADS_FAR
    products = frequencies * shape.c * oc_vectors * max(float(tiles), loads)
    if m == 6 and weights > _whole(caches, 3, DEFAULT_L3) // 8:
        products *= FAR_SIX
    transform = TRANSFORM_SIX if m == 6 else TRANSFORM
    transform *= 1 if vector_nbytes >= 64 else 2
    return products + transform * frequencies * tiles * (c_vectors + oc_vectors)


def best(vector_nbytes: int, caches: tuple[CacheLevel, ...], shape: Geometry) -> tuple[str, float]:
    """The algorithm that costs less, and its `fmas`."""
    cost = {name: fmas(vector_nbytes, caches, shape, m) for name, m in EDGES.items()}
    six = cost.pop("winograd6")
    name = min(cost, key=lambda each: cost[each])
    if vector_nbytes >= 64 and six * WORTH_SIX < cost[name]:
        return "winograd6", six
    return name, cost[name]


def levels(
    micro: tuple[int, int], caches: tuple[CacheLevel, ...], shape: Geometry, m: int
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """((tiles of a group, output channels multiplied together, 0), (tiles, channels, 1)).

    `micro` is the micro-tile: tiles by output channels. A group's transformed patches take half of
    L2, but are two micro-tiles at least, so that weights are read from afar half as often; products
    that wait for their transform take a quarter. F(6x6), whose patches are nearly twice as large,
    takes one micro-tile: its weights take the more of L2.
    """
    rows, panel = micro
    of_a_channel = 4 * (m + 2) ** 2
    l2 = _own(caches, 2, DEFAULT_L2)
    group = rows if m == 6 else max(l2 // 2 // (of_a_channel * shape.c) // rows, 2) * rows
    group = min(group, tiles_of(shape, m))
    wide = max(1, l2 // 4 // (of_a_channel * group * panel)) * panel
    return (group, min(wide, shape.oc), 0), (min(rows, group), panel, 1)


def _own(caches: tuple[CacheLevel, ...], level: int, default: int) -> int:
    """Bytes of a core's part of a cache."""
    return next((c.nbytes // max(1, c.shared_by) for c in caches if c.level == level), default)


def _whole(caches: tuple[CacheLevel, ...], level: int, default: int) -> int:
    return next((c.nbytes for c in caches if c.level == level), default)
