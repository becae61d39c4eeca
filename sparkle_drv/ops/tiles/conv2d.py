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

from functools import lru_cache

from sparkle_drv.ops.shapes.geometry import Geometry
from sparkle_drv.types import DeviceInfo, TilePlan

from . import gpu as tiles_gpu
from . import winograd as tiles_winograd
from .blocking import blocks
from .caches import Caches, own
from .cores import CALL_S, CORES, Core, core_of, flops_per_s, micro_tile, roofline_s, threads_for

# Costs in FMAs of a vector (Zen 4, avx512): of what a tile does beside its FMAs.
TURN = 8.0
"""Of a vector of sums that is turned on its way to NCHW."""
STORE = 2.0
"""Of a vector of sums that is stored as it is."""
COPY, COPY_FAR = 3.0, 12.0
"""Of a vector of pixels that goes through a window; through a window of rows and then into a panel,
twice as much. The second: straight into a panel, with vectors of 64 bytes: it is read once."""
PIXELS, PIXELS_SHORT = 0.7, 3.0
"""Of loading a vector of weights for a tile of pixels, since these come from L2 for each: with
vectors of 64 bytes, and with shorter ones, whose FMAs take half as long."""
PANELS = 0.5
"""Of loading a vector of pixels of a panel."""
LATENCY = 4.0
"""FMAs that must be under way at a time."""

FEW_PIXELS, FEW_PIXELS_COST = 4, 1.2
"""Up to so many left of a plane, panels take no whole vector for them; what one then costs."""
IN_PLACE_TILES, IN_PLACE_WEIGHTS = 20, 512 << 10
"""Up to so many tiles of output channels, x may serve in place of panels (direct/panels.c), unless
weights of more bytes, which come from L3, want large ones."""
FEW_CHANNELS = 16
"""Up to so many of a group, strips are read from a window of rows, else from panels
(direct/panels.c)."""
MOST_PANELS = 2 << 20
"""Bytes of panels at a time."""

GATHER_S = 0.6e-9
"""Seconds of one element that im2col packs, measured on one Zen 5 core."""
SCALAR_FLOPS = 1.2e9
"""Of the oracle."""
WORTH, WORTH_STRIDE2 = 1.25, 1.08
"""How much dearer direct convolution must be before Winograd's rounding errors are worth it. With
stride 2 there are none to speak of; the second is what the model may be off by."""
TERMS = 512
"""Terms of a sum before it is added to what there is: keeps the rounding errors small."""


@lru_cache(maxsize=1024)
def conv2d(info: DeviceInfo, shape: Geometry, algo: str = "auto") -> TilePlan:
    """The plan of a float32 convolution: which algorithm, and its blocks.

    "auto" stays "auto" on "ref", whose own choice is the oracle.
    """
    if info.kind == "gpu":
        return tiles_gpu.conv2d(info, shape, algo)
    core = core_of(info)
    if algo == "auto" and core is not CORES["ref"]:
        algo, fmas = tiles_winograd.best(_micro(core), info.caches, shape)
        worth = WORTH if shape.stride == (1, 1) else WORTH_STRIDE2
        if min(pixels_fmas(core, shape), strips_fmas(core, shape)) <= worth * fmas:
            algo = "direct"
    tile = blocks(core, info.caches, 4)
    edge = tiles_winograd.EDGES.get(algo)
    levels = direct_levels(core, info.caches, shape) if algo == "direct" else tile.levels
    if edge:
        levels = tiles_winograd.levels((tile.mr, tile.nr), info.caches, shape, edge)
    outputs = shape.n * shape.oc * shape.size[0] * shape.size[1]
    work = 2.0 * outputs * shape.terms
    least = tiles_winograd.flops(shape, edge) if edge else work
    alone = _alone_s(info, core, shape, algo, work)
    threads = threads_for(info, alone)
    nbytes = 4.0 * (shape.n * shape.c * shape.h * shape.w + shape.oc * shape.terms + outputs)
    return TilePlan(
        algo=algo,
        levels=levels,
        vector=tile.vector,
        threads=threads,
        layout_in=shape.layout,
        layout_out=shape.layout,
        predicted_s=max(
            roofline_s(info, least, nbytes, 4, threads),
            CALL_S + alone / (threads or info.compute_units),
        ),
    )


def direct_levels(
    core: Core, caches: Caches, shape: Geometry
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """((mc, nc, kc), (mr, nr, 1)) of the direct form that costs less.

    mc: output channels whose packed weights are gone through for each tile of pixels; they take
    half of L2. nc: pixels of a window, whose input rows take three quarters of L1, or of panels
    (_panels_nbytes). kc: terms.
    """
    broadcast, _, vector = micro_tile(core, 4)
    strips = strips_fmas(core, shape) < pixels_fmas(core, shape)
    mr, nr = (broadcast, 2 * vector) if strips else (2 * vector, broadcast)
    l1, l2 = own(caches, 1), own(caches, 2)
    pixels = shape.size[0] * shape.size[1]
    if strips and _panels(shape):
        mc = _down(min(l2 // 2 // (4 * min(shape.terms, TERMS)), shape.oc + mr), mr)
        nc = _panels_nbytes(shape, l2) // (4 * shape.terms)
        return (mc, _down(min(nc, shape.n * (pixels + nr)), nr), TERMS), (mr, nr, 1)
    mc = _down(min(l2 // 2 // (4 * shape.terms), shape.oc + mr), mr)
    rows = shape.terms // shape.kernel[1] * min(shape.stride[1], shape.kernel[1])
    nc = _down(min(l1 * 3 // 4 // (4 * rows), pixels + nr), nr)
    return (mc, nc, TERMS), (mr, nr, 1)


def pixels_fmas(core: Core, shape: Geometry) -> float:
    """Vector FMAs, and what costs as much, with vectors of output channels."""
    lanes = core.vector_nbytes // 4
    vectors = shape.groups * _pieces(shape.oc // shape.groups, lanes)
    pixels = shape.n * shape.size[0] * shape.size[1]
    load = PIXELS if core.vector_nbytes >= 64 else PIXELS_SHORT
    each = shape.terms * (1 + load / micro_tile(core, 4)[0])
    return pixels * vectors * (each + (TURN if shape.layout == "NCHW" else STORE))


def strips_fmas(core: Core, shape: Geometry) -> float:
    """The same with vectors of pixels; infinite for NHWC, where these are not neighbours."""
    if shape.layout == "NHWC":
        return float("inf")
    lanes = core.vector_nbytes // 4
    per_group = shape.oc // shape.groups
    rows, columns = shape.n * shape.size[0], shape.size[1]
    chains = max(1.0, LATENCY / max(1, 2 * per_group))
    if not _panels(shape):
        if _flat(shape):
            rows, columns = shape.n, shape.size[0] * shape.size[1]
        phases = min(shape.stride[1], (shape.kernel[1] - 1) * shape.dilation[1] + 1)
        copies = 0 if _flat(shape) else shape.c * shape.kernel[0] * phases
        sums = shape.oc * (shape.terms * chains + STORE)
        return rows * _pieces(columns, lanes) * (sums + copies * COPY)
    chains += PANELS / micro_tile(core, 4)[0]
    packing = shape.groups * shape.terms * _copies(core, shape)
    sums = shape.oc * (shape.terms * chains + STORE)
    return shape.n * _vectors(shape.size[0] * shape.size[1], lanes) * (sums + packing)


def _copies(core: Core, shape: Geometry) -> float:
    """What a vector of pixels costs on its way to a panel."""
    if shape.kernel != (1, 1):
        return 2 * COPY
    if core.vector_nbytes < 64:
        return COPY
    channels = shape.oc // shape.groups
    few = _pieces(channels, micro_tile(core, 4)[0]) <= IN_PLACE_TILES
    near = 4 * channels * shape.terms <= IN_PLACE_WEIGHTS
    return 0.0 if few and near and _flat(shape) else COPY_FAR


def _vectors(pixels: int, lanes: int) -> float:
    """Of the pixels of a plane in panels of two vectors."""
    left = pixels % (2 * lanes)
    if left <= FEW_PIXELS:
        return 2 * (pixels // (2 * lanes)) + left / lanes * FEW_PIXELS_COST
    return float(_pieces(pixels, lanes))


def _flat(shape: Geometry) -> bool:
    """Does it know no rows, as a 1 x 1 convolution with stride 1?"""
    return shape.kernel == (1, 1) and shape.stride == (1, 1) and shape.pad == (0, 0)


def _panels(shape: Geometry) -> bool:
    return shape.layout == "NCHW" and shape.c // shape.groups > FEW_CHANNELS


def _panels_nbytes(shape: Geometry, l2: int) -> int:
    """What panels should take that are computed from together: of L2 a quarter, with room for the
    next ones, which are fetched meanwhile. More, from L3, where weights come from there, which
    happens once for all of these panels, or where rows of an image share a window."""
    far = 4 * shape.oc // shape.groups * shape.terms > l2 // 2
    return min(MOST_PANELS, 4 * l2) if far else l2 // (4 if shape.kernel == (1, 1) else 1)


def _alone_s(info: DeviceInfo, core: Core, shape: Geometry, algo: str, work: float) -> float:
    """One core's time, in seconds."""
    if algo == "naive" or core is CORES["ref"]:
        return work / SCALAR_FLOPS
    edge = tiles_winograd.EDGES.get(algo)
    if algo == "direct" or edge:
        fmas = (
            tiles_winograd.fmas(_micro(core), info.caches, shape, edge)
            if edge
            else min(pixels_fmas(core, shape), strips_fmas(core, shape))
        )
        return fmas * 2 * (core.vector_nbytes // 4) / flops_per_s(info, 4, 1)
    columns = shape.n * shape.groups * shape.terms * shape.size[0] * shape.size[1]
    return columns * GATHER_S + work / (flops_per_s(info, 4, 1) / 2)


def _micro(core: Core) -> tuple[int, int]:
    """Rows of a micro-tile, and lanes of a vector."""
    rows, _, lanes = micro_tile(core, 4)
    return rows, lanes


def _down(value: int, unit: int) -> int:
    return max(1, value // unit) * unit


def _pieces(size: int, of: int) -> int:
    return max(1, -(-size // of))
