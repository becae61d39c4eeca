"""The tile model of Winograd convolutions: where they are worth it, groups that fit the caches.

When this fails, Winograd is chosen where it is slower, or overflows the caches.
"""

import pytest

from sparkle_drv.ops.shapes.geometry import geometry
from sparkle_drv.ops.tiles import conv2d as tiles_conv2d
from sparkle_drv.ops.tiles import winograd as tiles_winograd
from sparkle_drv.types import CacheLevel, DeviceInfo

KIB, MIB = 1 << 10, 1 << 20
ZEN = (CacheLevel(1, 32 * KIB, 1), CacheLevel(2, MIB, 1), CacheLevel(3, 32 * MIB, 8))


def layer(c, size, oc, n=1, **options):
    defaults = {"stride": 1, "padding": 1, "dilation": 1, "groups": 1, "layout": "NCHW"}
    given = {**defaults, **options}
    return geometry((n, c, size, size), (oc, c // given["groups"], 3, 3), **given)


def plan(shape, isa="avx512", algo="auto"):
    info = DeviceInfo("cpu", "cpu", "a cpu", "cpu", isa=isa, caches=ZEN, compute_units=8)
    return tiles_conv2d.conv2d(info, shape, algo)


@pytest.mark.parametrize("isa", ["avx512", "avx2"])
@pytest.mark.parametrize(
    ("algo", "shape"),
    [
        ("winograd6", layer(64, 56, 64)),
        ("winograd6", layer(128, 112, 128)),
        ("winograd", layer(256, 56, 256)),  # more weights than small groups can read again
        ("winograd", layer(256, 14, 256)),
        ("winograd6", layer(64, 224, 64)),
        ("winograd", layer(32, 56, 32)),  # transforms cost more than larger tiles save
        ("winograd6", layer(128, 112, 128, padding=2)),
        ("winograd", layer(128, 112, 128, padding=20)),  # outputs that do not see the image
        ("winograd", layer(128, 112, 128, padding=((150, 0), (0, 0)))),
        ("winograd", layer(512, 7, 512, n=8)),
        ("winograd2", layer(512, 7, 512)),  # weights of F(4x4) from memory for four tiles
        ("winograd2", layer(256, 4, 256)),
        ("direct", layer(128, 2, 128)),
        ("winograd", layer(128, 56, 128, n=8, stride=2)),
        ("winograd", layer(512, 14, 512, n=8, stride=2)),
        ("winograd2", layer(256, 28, 256, stride=2)),
        ("winograd2", layer(512, 14, 512, stride=2)),
        ("direct", layer(3, 224, 64, stride=2)),
        ("direct", layer(128, 4, 128, stride=2)),
        ("direct", layer(64, 56, 64, stride=(2, 1))),
        ("direct", layer(64, 56, 64, stride=3)),
        ("direct", layer(64, 56, 64, groups=2)),
        ("direct", layer(3, 224, 64)),  # transforms cost more than what they save
    ],
    ids=str,
)
def test_where_it_is_worth_it(isa, algo, shape):
    assert plan(shape, isa).algo == algo


def test_plans():
    shape = layer(64, 56, 64)
    chosen = plan(shape, algo="winograd")
    (group, wide, _), (rows, panel, _) = chosen.levels
    assert group % rows == 0
    assert wide % panel == 0
    assert 36 * 4 * 64 * group <= MIB // 2
    assert plan(shape, algo="winograd2").algo == "winograd2"
    assert plan(shape).algo == "winograd6"
    assert plan(shape).levels[0] == (rows, 2 * panel, 0)
    assert plan(shape, isa="ref").algo == "auto"
    assert plan(layer(512, 14, 512)).levels[0][0] == 16  # never more tiles than there are


@pytest.mark.parametrize("isa", ["avx512", "avx2"])
def test_few_tiles_whose_weights_come_from_afar_are_one_group(isa):
    for shape in (layer(512, 14, 512, stride=2), layer(512, 7, 512), layer(256, 14, 256)):
        assert plan(shape, isa).levels[0][0] == 16
    assert plan(layer(512, 28, 512), isa).levels[0] == (49, 64, 0)
    assert plan(layer(512, 56, 512), isa).levels[0] == ({"avx512": 56, "avx2": 60}[isa], 64, 0)
    assert plan(layer(256, 56, 256), isa).levels[0][0] == {"avx512": 28, "avx2": 12}[isa]


def test_plans_with_stride_2():
    """Fewer tiles where a micro-tile of them fills L2, all of them where weights are far."""
    shape = layer(128, 56, 128, n=8, stride=2)
    assert plan(shape).levels == ((14, 32, 0), (14, 32, 1))
    assert plan(layer(256, 28, 256, stride=2), algo="winograd").levels[0] == (16, 64, 0)
    assert plan(layer(512, 14, 512, n=8, stride=2)).levels[0][0] == 32


def test_products_with_stride_2():
    """Odd pixels of outputs past the edge are left out: 7 outputs are 2 tiles of 5 and 7 more."""
    shape = layer(64, 14, 32, n=2, stride=2)
    assert shape.size == (7, 7)
    assert tiles_winograd.parts(shape, 4) == [(25, 8), (5, 28), (5, 28), (1, 98)]
    assert tiles_winograd.flops(shape, 4) == 2 * 2 * (2 * 5 + 7) ** 2 * 64 * 32
    assert tiles_winograd.flops(shape, 2) == 2 * 2 * (4 * 3 + 7) ** 2 * 64 * 32
    assert tiles_winograd.parts(layer(64, 14, 32), 4) == [(36, 16)]


def test_costs_without_caches_and_for_others():
    shape = layer(64, 56, 64)
    assert tiles_winograd.fmas(16, (), shape, 4) > 0
    assert tiles_winograd.fmas(16, ZEN, layer(64, 56, 64, dilation=2), 4) == float("inf")
    assert tiles_winograd.flops(shape, 4) == 2 * 36 * 14 * 14 * 64 * 64
