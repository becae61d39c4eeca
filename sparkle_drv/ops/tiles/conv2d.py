"""The tile model of a convolution: it chooses the algorithm and its blocks from a memory hierarchy.

The functions take plain data: sizes, and the properties of cores and caches (cores.py, caches.py).
calls/plans.py calls this; `bench.py tune` searches around its plans.

On a cpu "direct" has two micro-tiles with equally many accumulators. The plan's `levels` show
which one is used.
The first, a tile of pixels, broadcasts pixels against vectors of output channels (mr = two vectors
of channels, nr = pixels). This tile wastes nothing if channels fill vectors, but NCHW results must
be transposed at the end. The second, a strip, broadcasts output channels against vectors of pixels
(mr = channels, nr = two vectors of pixels). A strip wastes nothing if the pixels of a row fill
vectors.
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

# TURN to PANELS: costs of a tile besides its FMAs. The unit is the time of a vector FMA (Zen 4,
# avx512).
TURN = 8.0
"""Cost of transposing a vector of sums for NCHW."""
COPY = 4.0
"""Cost of copying a vector of pixels to a window or panel. A flat convolution reads x directly."""
PIXELS = 0.7
"""Cost of loading a vector of weights for a tile of pixels; each tile loads them from L2."""
PANELS = 0.04
"""Cost of loading a vector of pixels of a panel, for each FMA."""
FEW_PIXELS = 4
"""If at most this many pixels of a plane are left over, they do not take a whole vector of a panel.
"""
FEW_CHANNELS = 16
"""With at most this many channels in a group, strips are read from a window of rows. With more they
are read from panels (direct/panels.c)."""
MOST_PANELS = 2 << 20
"""The most bytes of panels at a time."""

WORTH = 1.08
"""Winograd is chosen if direct convolution costs more than this many times as much. The model may
be wrong by this factor, and Winograd's rounding errors are larger."""
TERMS = 512
"""Terms of a partial sum before it is added to the total, which keeps rounding errors small."""


def conv2d(info: DeviceInfo, shape: Geometry, algo: str = "auto") -> TilePlan:
    """Returns the plan of a float32 convolution: its algorithm and blocks.

    On the instruction set "ref", algo "auto" stays "auto" in the plan: its kernel then computes
    the plain sum of products, the oracle of all other algorithms.
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
    """Returns the blocks ((mc, nc, kc), (mr, nr, 1)) of a direct convolution.

    mr x nr is the micro-tile: the cheaper of one with vectors of pixels and one with vectors of
    output channels. mc is the number of output channels that each tile of pixels is multiplied
    with. Their packed weights take half of L2. nc is the number of output pixels whose inputs
    are copied together, into panels or into a window. Panels take the
    bytes that _panels_nbytes returns. A window, a copy of input rows, takes three quarters of L1.
    kc is the number of terms of a partial sum.
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
    """Returns the cost of "direct" with vectors of output channels, in vector FMAs."""
    lanes = core.vector_nbytes // 4
    vectors = shape.groups * pieces(shape.oc // shape.groups, lanes)
    pixels = shape.n * shape.size[0] * shape.size[1]
    each = shape.terms * (1 + PIXELS / micro_tile(core, 4)[0])
    return pixels * vectors * (each + (TURN if shape.layout == "NCHW" else 0))


def strips_fmas(core: Core, shape: Geometry) -> float:
    """Returns the cost of "direct" with vectors of pixels, in vector FMAs.

    The cost is infinite for NHWC, because the pixels of a channel are not contiguous there.
    """
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
    """Returns whether an image can be read as one long row: kernel 1 x 1, stride 1, no padding."""
    return shape.kernel == (1, 1) and shape.stride == (1, 1) and shape.pad == (0, 0)


def _panels(shape: Geometry) -> bool:
    return shape.layout == "NCHW" and shape.c // shape.groups > FEW_CHANNELS


def _panels_nbytes(shape: Geometry, l2: int) -> int:
    """Returns the bytes of panels that are used together.

    The panels take a quarter of L2, so that the next panels, which are prefetched, have room. If
    the weights come from L3, panels may take more. The weights are read once for all panels that
    are used together, so more panels mean fewer reads.
    """
    far = 4 * shape.oc // shape.groups * shape.terms > l2 // 2
    return min(MOST_PANELS, 4 * l2) if far else l2 // 4
