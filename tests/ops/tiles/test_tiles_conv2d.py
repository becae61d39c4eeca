"""The tile model of convolutions: which algorithm where, and blocks that fit.

When this fails, conv2d picks a slow algorithm, or blocks that do not fit the caches.
"""

import pytest

from sparkle_drv.ops import tiles
from sparkle_drv.ops.shapes.geometry import geometry
from sparkle_drv.ops.tiles import conv2d as tiles_conv2d
from sparkle_drv.ops.tiles.caches import FALLBACK
from sparkle_drv.types import CacheLevel, DeviceInfo

KIB, MIB = 1 << 10, 1 << 20
ZEN = (CacheLevel(1, 32 * KIB, 1), CacheLevel(2, MIB, 1), CacheLevel(3, 32 * MIB, 8))


def machine(isa="avx512", caches=ZEN, units=8):
    return DeviceInfo("cpu", "cpu", "a cpu", "cpu", isa=isa, caches=caches, compute_units=units)


def conv(x, w, isa="avx512", algo="auto", **options):
    defaults = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "layout": "NCHW"}
    return tiles_conv2d.conv2d(machine(isa), geometry(x, w, **{**defaults, **options}), algo)


def form(plan):
    """What the accumulators of a direct plan hold side by side."""
    (mr, nr, _) = plan.levels[1]
    return "channels" if mr > nr else "pixels"


@pytest.mark.parametrize(
    ("side_by_side", "x", "w", "options"),
    [
        # Few terms: turning the sums would cost more than they do.
        ("pixels", (1, 3, 224, 224), (64, 3, 3, 3), {"padding": 1}),
        ("pixels", (1, 3, 224, 224), (64, 3, 7, 7), {"padding": 3, "stride": 2}),
        ("pixels", (1, 64, 56, 56), (256, 64, 1, 1), {}),
        # Pixels that fill no vector.
        ("channels", (1, 512, 7, 7), (512, 512, 3, 3), {"padding": 1}),
        # Four left of a plane cost panels little, few terms make turning dear.
        ("pixels", (8, 1024, 14, 14), (256, 1024, 1, 1), {}),
        ("pixels", (1, 256, 14, 14), (1024, 256, 1, 1), {}),
        ("pixels", (8, 512, 28, 28), (1024, 512, 1, 1), {"stride": 2}),
        # Channels that fill no vector.
        ("pixels", (1, 64, 56, 56), (4, 64, 3, 3), {"padding": 1}),
        ("pixels", (1, 64, 56, 56), (64, 2, 3, 3), {"padding": 1, "groups": 32}),
        # Channels lie side by side, pixels do not.
        ("channels", (1, 224, 224, 3), (64, 3, 7, 7), {"layout": "NHWC", "stride": 2}),
    ],
)
def test_what_vectors_hold(side_by_side, x, w, options):
    plan = conv(x, w, algo="direct", **options)
    assert plan.algo == "direct"
    assert form(plan) == side_by_side
    assert plan.layout_in == plan.layout_out == options.get("layout", "NCHW")
    assert conv(x, w, isa="ref", **options).algo == "auto"


def test_plans_do_what_they_are_told():
    big, filters = (1, 64, 56, 56), (64, 64, 3, 3)
    for algo in ("naive", "direct", "im2col"):
        assert conv(big, filters, algo=algo).algo == algo
    assert conv((1, 1, 3, 3), (1, 1, 3, 3)).threads == 1
    assert conv(big, filters).threads == 0


@pytest.mark.parametrize("isa", tiles.CORES)
def test_tiles_fill_the_registers(isa):
    core = tiles.CORES[isa]
    for w in ((64, 3, 3, 3), (4, 3, 3, 3)):
        shape = geometry((1, 3, 30, 30), w, 1, 0, 1, 1, "NCHW")
        (mc, nc, terms), (mr, nr, _) = tiles_conv2d.direct_levels(core, ZEN, shape)
        assert mc % mr == nc % nr == 0 < min(mc, nc)
        accumulators = mr * nr // (core.vector_nbytes // 4)
        assert core.fma_latency * core.fma_per_cycle <= accumulators <= core.registers - 3
        assert terms >= 64


@pytest.mark.parametrize("caches", [ZEN, (), (CacheLevel(1, 1, 1), CacheLevel(2, 1, 0))])
def test_blocks_of_a_direct_plan_fit(caches):
    core = tiles.CORES["avx512"]
    shape = geometry((1, 64, 56, 56), (256, 64, 1, 1), 1, 0, 1, 1, "NCHW")
    (mc, nc, _), (mr, nr, _) = tiles_conv2d.direct_levels(core, caches, shape)
    l1, l2 = (caches or FALLBACK)[:2]
    assert mc * 64 * 4 <= max(l2.nbytes // 2, mr * 64 * 4)
    assert nc * 64 * 4 <= max(l2.nbytes // 4, nr * 64 * 4)  # panels
    shape = geometry((1, 16, 56, 56), (256, 16, 1, 1), 1, 0, 1, 1, "NCHW")
    (mc, nc, _), (mr, nr, _) = tiles_conv2d.direct_levels(core, caches, shape)
    assert mc * 16 * 4 <= max(l2.nbytes // 2, mr * 16 * 4)
    assert nc * 16 * 4 <= max(l1.nbytes, nr * 16 * 4)  # a window of rows


@pytest.mark.parametrize("isa", ["avx512", "avx2"])
def test_large_images_of_many_channels_are_read_from_panels(isa):
    core = tiles.CORES[isa]
    shape = geometry((1, 256, 56, 56), (64, 256, 1, 1), 1, 0, 1, 1, "NCHW")
    assert tiles_conv2d.strips_fmas(core, shape) < tiles_conv2d.pixels_fmas(core, shape)
    # Where weights come from L3, all pixels of an image share a pass over them.
    for x, w in (((1, 1024, 14, 14), (2048, 1024, 1, 1)), ((1, 512, 14, 14), (512, 512, 3, 3))):
        shape = geometry(x, w, 2, w[2] // 2, 1, 1, "NCHW")
        (_, nc, _), _ = tiles_conv2d.direct_levels(core, ZEN, shape)
        assert isa == "avx512" or nc >= 49
