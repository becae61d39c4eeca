"""The tile model of a convolution: which algorithm, and how it is blocked, from a memory hierarchy.

Pure functions over plain data, on the figures of cores.py and caches.py.
Called by `calls/plans.py`; `bench.py tune` searches around it.

On a cpu "direct" is one of two micro-tiles of as many accumulators, which `levels` tells apart:
pixels that are broadcast against vectors of output channels (mr = two vectors of channels, nr =
pixels), or output channels that are broadcast against vectors of pixels (mr = channels, nr = two
vectors of pixels). The first wastes nothing when channels fill vectors, but NCHW has to be turned
at the end; the second wastes nothing when pixels of a row do.
"""

from __future__ import annotations

import math

from sparkle_drv.ops.shapes.geometry import Geometry
from sparkle_drv.types import DeviceInfo, TilePlan

from . import gpu as tiles_gpu
from . import winograd as tiles_winograd
from .blocking import blocks
from .caches import Caches, own
from .cores import CORES, Core, Levels, core_of, down, micro_tile, pieces, threads_for

# Costs in FMAs of a vector (Zen 4, avx512): of what a tile does beside its FMAs.
TURN = 8.0
"""Of a vector of sums that is turned on its way to NCHW."""
COPY = 4.0
"""Of a vector of pixels that goes through a window, or into a panel; x serves in place of it where
a convolution is flat."""
PIXELS = 0.7
"""Of loading a vector of weights for a tile of pixels, since these come from L2 for each."""
PANELS = 0.04
"""Of loading a vector of pixels of a panel, for each FMA."""
FEW_PIXELS = 4
"""Up to so many left of a plane, panels take no whole vector for them."""
FEW_CHANNELS = 16
"""Up to so many of a group, strips are read from a window of rows, else from panels
(direct/panels.c)."""
MOST_PANELS = 2 << 20
"""Bytes of panels at a time."""

WORTH = 1.08
"""How much dearer direct convolution must be before Winograd is worth it: the model may be off by
so much, and Winograd's rounding errors are larger."""
TERMS = 512
"""Terms of a sum before it is added to what there is: keeps the rounding errors small."""


def conv2d(info: DeviceInfo, shape: Geometry, algo: str = "auto") -> TilePlan:
    """The plan of a float32 convolution: which algorithm, and its blocks.

    "auto" stays "auto" on "ref", whose own choice is the oracle.
    """
    if info.kind == "gpu":
        return tiles_gpu.conv2d(info, shape, algo)
    core = core_of(info)
    if algo == "auto" and core is not CORES["ref"]:
        algo, fmas = tiles_winograd.best(core.vector_nbytes // 4, info.caches, shape)
        if min(pixels_fmas(core, shape), strips_fmas(core, shape)) <= WORTH * fmas:
            algo = "direct"
    tile = blocks(core, info.caches, 4)
    levels = tile.levels
    if algo == "direct":
        levels = direct_levels(core, info.caches, shape)
    elif algo in tiles_winograd.EDGES:
        edge = tiles_winograd.EDGES[algo]
        levels = tiles_winograd.levels((tile.mr, tile.nr), info.caches, shape, edge)
    return TilePlan(
        algo=algo,
        levels=levels,
        vector=tile.vector,
        threads=threads_for(info, 2.0 * math.prod(shape.out_shape) * shape.terms, 4),
        layout_in=shape.layout,
        layout_out=shape.layout,
    )


def direct_levels(core: Core, caches: Caches, shape: Geometry) -> Levels:
    """((mc, nc, kc), (mr, nr, 1)) of the direct form that costs less.

    mc: output channels whose packed weights are gone through for each tile of pixels; they take
    half of L2. nc: pixels of a window, whose input rows take three quarters of L1, or of panels
    (_panels_nbytes). kc: terms.
    """
    broadcast, _, vector = micro_tile(core, 4)
    strips = strips_fmas(core, shape) < pixels_fmas(core, shape)
    mr, nr = (broadcast, 2 * vector) if strips else (2 * vector, broadcast)
    l1, l2 = own(caches, 1), own(caches, 2)
    pixels = shape.size[0] * shape.size[1] + nr
    panels = strips and _panels(shape)
    mc = l2 // 2 // (4 * (min(shape.terms, TERMS) if panels else shape.terms))
    if panels:
        nc = min(_panels_nbytes(shape, l2) // (4 * shape.terms), shape.n * pixels)
    else:
        rows = shape.terms // shape.kernel[1] * min(shape.stride[1], shape.kernel[1])
        nc = min(l1 * 3 // 4 // (4 * rows), pixels)
    return (down(min(mc, shape.oc + mr), mr), down(nc, nr), TERMS), (mr, nr, 1)


def pixels_fmas(core: Core, shape: Geometry) -> float:
    """Vector FMAs, and what costs as much, with vectors of output channels."""
    lanes = core.vector_nbytes // 4
    vectors = shape.groups * pieces(shape.oc // shape.groups, lanes)
    pixels = shape.n * shape.size[0] * shape.size[1]
    each = shape.terms * (1 + PIXELS / micro_tile(core, 4)[0])
    return pixels * vectors * (each + (TURN if shape.layout == "NCHW" else 0))


def strips_fmas(core: Core, shape: Geometry) -> float:
    """The same with vectors of pixels; infinite for NHWC, where these are not neighbours."""
    if shape.layout == "NHWC":
        return float("inf")
    lanes = core.vector_nbytes // 4
    plane = shape.size[0] * shape.size[1]
    copy = 0 if _flat(shape) else COPY
    if _panels(shape):
        few = plane % (2 * lanes) <= FEW_PIXELS
        vectors = plane / lanes if few else pieces(plane, lanes)
        each = shape.terms * (shape.oc * (1 + PANELS) + shape.groups * copy)
    else:
        rows, columns = (1, plane) if _flat(shape) else shape.size
        vectors = rows * pieces(columns, lanes)
        each = shape.oc * shape.terms + shape.c * shape.kernel[0] * copy
    return shape.n * vectors * each


def _flat(shape: Geometry) -> bool:
    """Does it know no rows, as a 1 x 1 convolution with stride 1?"""
    return shape.kernel == (1, 1) and shape.stride == (1, 1) and shape.pad == (0, 0)


def _panels(shape: Geometry) -> bool:
    return shape.layout == "NCHW" and shape.c // shape.groups > FEW_CHANNELS


def _panels_nbytes(shape: Geometry, l2: int) -> int:
    """What panels should take that are computed from together: of L2 a quarter, with room for the
    next ones, which are fetched meanwhile. More, from L3, where weights come from there, which
    happens once for all of these panels."""
    far = 4 * shape.oc // shape.groups * shape.terms > l2 // 2
    return min(MOST_PANELS, 4 * l2) if far else l2 // 4
