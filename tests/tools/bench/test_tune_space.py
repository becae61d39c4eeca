"""The space that `bench.py tune` searches: legal plans only, neighbours of each other, and all ways
to compute within reach.

When this fails, tuning tries impossible plans, or misses whole kinds of them.
"""

from dataclasses import replace

import pytest
from _bench.tune import space

from sparkle_drv.codegen import glsl
from sparkle_drv.ops import tiles
from sparkle_drv.ops.shapes.geometry import geometry
from sparkle_drv.ops.tiles import conv2d as tiles_conv2d
from sparkle_drv.types import CacheLevel, DeviceInfo, TilePlan

SOFTWARE = DeviceInfo(
    "egl:0", "egl", "a gpu", "gpu", software=True, compute_units=2, max_group_size=1024,
    max_shared_nbytes=32768, isa="glsl 430", features=("f64",),
)  # fmt: skip
HARDWARE = replace(SOFTWARE, software=False, max_group_size=256, max_shared_nbytes=16384)
CACHES = CacheLevel(1, 32 << 10, 1), CacheLevel(2, 1 << 20, 1)
CPU = DeviceInfo("cpu", "cpu", "a cpu", "cpu", isa="avx2", compute_units=4, caches=CACHES)
SQUARE = TilePlan(algo="blocked", levels=((16, 128, 4), (16, 16, 1)), vector=4)
IMAGE = geometry((1, 32, 64, 64), (32, 32, 3, 3), 1, 1, 1, 1, "NCHW")


def model(kernel, info):
    if kernel.startswith("gemm"):
        return tiles.gemm(info, 300, 300, 300, 8 if kernel.endswith("f64") else 4)
    return tiles_conv2d.conv2d(info, IMAGE) if kernel == "conv2d_f32" else tiles.reduce(info)


def within(kernel, info, steps):
    """Every plan that `steps` steps from the seeds lead to."""
    found = set(space.seeds(kernel, model(kernel, info), info))
    edge = set(found)
    for _ in range(steps):
        edge = {n for plan in edge for n in space.neighbours(kernel, plan, info)} - found
        found |= edge
    return found


@pytest.mark.parametrize("info", [SOFTWARE, HARDWARE], ids=["software", "hardware"])
@pytest.mark.parametrize("kernel", ["gemm_f32", "gemm_f64", "conv2d_f32", "reduce_sum_f32"])
def test_the_device_can_do_every_plan(kernel, info):
    plans = within(kernel, info, 1)
    assert len(plans) >= 3
    for plan in plans:
        shader = glsl.generate(kernel, plan, info)
        x, y, z = shader.group_size
        assert x * y * z <= info.max_group_size
        assert shader.source


@pytest.mark.parametrize("info", [SOFTWARE, HARDWARE], ids=["software", "hardware"])
def test_every_way_to_compute_is_in_reach(info):
    gemms, images = within("gemm_f32", info, 3), within("conv2d_f32", info, 3)
    assert {plan.algo for plan in gemms} == {"blocked", "shared"}
    assert {plan.algo for plan in images} == {"direct", "im2col"}
    assert {plan.vector for plan in gemms} == {1, 4}
    assert len({plan.levels for plan in gemms}) > 50


def test_software_devices_are_spared_what_takes_a_minute_to_compile():
    for plan in within("gemm_f32", SOFTWARE, 4):
        tm, tn, _ = plan.levels[1]
        assert tm * tn <= space.MOST_SUMS[True]


def test_neighbours_differ_in_one_part_or_have_as_many_outputs_in_another_form():
    start, forms = SQUARE, set()
    for plan in space.neighbours("gemm_f32", start, SOFTWARE):
        was, now = (space.shaped(p) for p in (start, plan))
        changed = [name for name, value in vars(was).items() if value != vars(now)[name]]
        assert len(changed) == 1 or changed == ["tm", "tn"]
        if len(changed) == 2:
            assert was.tm * was.tn / 2 < now.tm * now.tn <= was.tm * was.tn
            forms.add((now.tm, now.tn))
    assert forms >= {(8, 32), (32, 8)}


@pytest.mark.parametrize("kernel", ["gemm_f32", "gemm_f64", "conv2d_f32"])
def test_cpu_plans_are_whole_micro_tiles(kernel):
    start = model(kernel, CPU)
    plans = within(kernel, CPU, 2)
    assert {plan.threads for plan in plans} == {0, 1}
    for plan in plans:
        (mc, nc, kc), (mr, nr, _) = plan.levels
        assert (mr, nr) == start.levels[1][:2]
        assert mc % mr == nc % nr == kc % 8 == 0
        assert min(mc, nc) > 0
        assert (kc > 0) == (start.levels[0][2] > 0)


def test_the_model_comes_first_and_no_plan_twice():
    for kernel in ("gemm_f32", "conv2d_f32"):
        for info in (SOFTWARE, HARDWARE, CPU):
            seeds = space.seeds(kernel, model(kernel, info), info)
            assert seeds[0] == model(kernel, info)
            assert len(set(seeds)) == len(seeds)


def test_a_plan_in_words():
    assert space.text(SQUARE) == "blocked 16x16 of 16x128x4 v4"
    assert space.text(replace(model("gemm_f32", CPU), threads=1)).startswith("blocked 6x16 ")
    assert space.text(tiles.reduce(SOFTWARE)) == "256x1x1 v4"
