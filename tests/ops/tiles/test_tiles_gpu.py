"""The tile model for GPUs: plans that the device can do, few of them, and sensible ones.

When this fails, a plan for a GPU cannot run there.
"""

import itertools

import pytest

from sparkle_drv.codegen import glsl
from sparkle_drv.ops import tiles
from sparkle_drv.ops.shapes.geometry import geometry
from sparkle_drv.ops.tiles import conv2d as tiles_conv2d
from sparkle_drv.ops.tiles import gpu as tiles_gpu
from sparkle_drv.types import DeviceInfo, TilePlan


def device(software, shared=32768, group=1024, units=1):
    return DeviceInfo(
        "egl:0", "egl", "a gpu", "gpu", software=software, compute_units=units,
        max_group_size=group, max_shared_nbytes=shared, isa="glsl 430", language="glsl",
        features=("f64",),
    )  # fmt: skip


DEVICES = [device(True, units=2), device(False), device(False, 16384, 128), device(False, 4096, 64)]
SIZES = (0, 1, 7, 64, 100, 1000, 4096)


def convolution(n=1, c=32, size=64, oc=32, kernel=3, groups=1, layout="NCHW"):
    x = (n, c, size, size) if layout == "NCHW" else (n, size, size, c)
    return geometry(x, (oc, c // groups, kernel, kernel), 1, kernel // 2, 1, groups, layout)


@pytest.mark.parametrize("info", DEVICES, ids=["software", "large", "small", "tiny"])
@pytest.mark.parametrize("algo", ["auto", "naive", "blocked"])
def test_the_device_can_do_every_gemm_plan_and_there_are_few(info, algo):
    plans = set()
    for m, n, k, itemsize in itertools.product(SIZES, SIZES, SIZES, (4, 8)):
        plan = tiles.gemm(info, m, n, k, itemsize, algo)
        plans.add((plan, itemsize))
    assert len(plans) <= 2 * len(tiles_gpu.SOFTWARE_TILES)
    for plan, itemsize in plans:
        assert glsl.generate("gemm_f32" if itemsize == 4 else "gemm_f64", plan, info).source


@pytest.mark.parametrize("info", DEVICES, ids=["software", "large", "small", "tiny"])
@pytest.mark.parametrize("algo", ["auto", "naive", "direct", "im2col"])
def test_the_device_can_do_every_convolution_plan(info, algo):
    plans = set()
    for c, size, oc, layout in itertools.product((8, 64), (8, 56), (8, 100), ("NCHW", "NHWC")):
        for groups in (1, 4):
            plans.add(
                tiles_conv2d.conv2d(info, convolution(2, c, size, oc, 3, groups, layout), algo)
            )
    assert len(plans) <= len(tiles_gpu.SOFTWARE_TILES)
    for plan in plans:
        assert glsl.generate("conv2d_f32", plan, info).source


def test_software_takes_registers_and_hardware_shared_memory():
    software, hardware = DEVICES[:2]
    assert tiles.gemm(software, 512, 512, 512).algo == "blocked"
    assert tiles.gemm(hardware, 512, 512, 512).algo == "shared"
    assert tiles_conv2d.conv2d(software, convolution()).algo == "direct"
    assert tiles_conv2d.conv2d(hardware, convolution()).algo == "im2col"


def test_tiles_grow_with_the_matrices():
    for info in DEVICES[:2]:
        sums = [tiles.gemm(info, s, s, s).levels[1] for s in (16, 64, 512, 2048)]
        areas = [tm * tn for tm, tn, _ in sums]
        assert areas == sorted(areas)
        assert areas[0] < areas[-1]


def test_few_channels_do_not_pay_for_many():
    depthwise = convolution(c=32, oc=32, groups=32)
    assert tiles_conv2d.conv2d(DEVICES[0], depthwise).levels[1][0] == 1


def test_as_many_terms_as_llvmpipe_has_rounds_are_taken_one_by_one():
    assert tiles_conv2d.conv2d(DEVICES[0], convolution(c=64)).vector == 1
    assert tiles_conv2d.conv2d(DEVICES[0], convolution(c=8192, size=4, oc=8)).vector == 4


def test_an_algorithm_asked_for_is_the_one_planned():
    for info in DEVICES:
        assert tiles.gemm(info, 99, 99, 99, 4, "naive") == TilePlan(algo="naive")
        assert tiles.gemm(info, 99, 99, 99, 4, "blocked").algo == "blocked"
        for algo in ("naive", "direct", "im2col"):
            assert tiles_conv2d.conv2d(info, convolution(), algo).algo == algo


def test_expressions_become_code_where_kernels_are_made_here_and_it_is_worth_it():
    program, enough = (1, 0x101, 3), tiles_gpu.WORTH_COMPILING
    plan = tiles.map(DEVICES[0], program, enough)
    assert plan == TilePlan(program=program)
    assert glsl.generate("map_f32", plan, DEVICES[0]).source
    assert tiles.map(DEVICES[0], program, enough - 1) is None
    assert tiles.map(DeviceInfo("cuda:0", "cuda", "", "gpu", isa="sm_90"), program, 1 << 30) is None
    assert tiles.map(DeviceInfo("cpu", "cpu", "", "cpu", isa="avx2"), program, 1 << 30) is None
    for isa in ("gfx1036", "gfx1100"):
        amd = DeviceInfo("amdgpu:0", "amdgpu", "", "gpu", isa=isa, language="rdna")
        assert tiles.map(amd, program, enough) == plan
        assert tiles.map(amd, program, enough - 1) is None


def test_long_rows_are_cut_for_every_unit():
    for info in DEVICES:
        parts = tiles.reduce_parts(info, 1 << 30)
        assert parts % 4 == 0
        assert parts >= info.compute_units
        assert tiles.reduce_parts(info, 1000) == 1
    assert tiles.reduce_parts(DeviceInfo("cpu", "cpu", "", "cpu"), 1 << 30) == 1


def test_sums_too_long_for_llvmpipes_rounds_take_many_terms_a_round_or_are_refused():
    info = DEVICES[0]
    assert tiles.gemm(info, 8, 8, 60_000).levels[0][2] == 4
    assert tiles.gemm(info, 8, 8, 65_500).levels[0][2] == 16
    for k, algo in ((65_500, "naive"), (1 << 20, "auto")):
        with pytest.raises(ValueError, match=f"k: expected at most .* got {k}"):
            tiles.gemm(info, 8, 8, k, 4, algo)


@pytest.mark.parametrize(
    ("algo", "kernel", "most"),  # channels; llvmpipe sums a few more to the end
    [("naive", 1, 10_700), ("naive", 3, 3_580), ("naive", 5, 1_690), ("direct", 1, 258_000),
     ("direct", 3, 28_600), ("direct", 3, 7_155), ("im2col", 3, 7_160), ("auto", 3, 28_600)],
)  # fmt: skip
def test_long_sums_of_convolutions_are_refused_where_llvmpipe_would_leave_them(algo, kernel, most):
    def plan(c):
        shape = geometry((1, c, kernel, kernel), (1, c, kernel, kernel), 1, 0, 1, 1, "NCHW")
        return tiles_conv2d.conv2d(DEVICES[0], shape, algo)

    assert plan(most).algo in (algo, "direct")
    more = int(1.03 * most) // 4 * 4 + most % 4  # four terms a round, or one, as before
    with pytest.raises(ValueError, match=f"w: expected at most .* got {more * kernel**2}"):
        plan(more)
