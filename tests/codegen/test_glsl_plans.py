"""What a TilePlan does to a shader: tiles, grids that cover the output, and plans that a device
cannot do.

When this fails, a tuned plan leaves part of the output unwritten on OpenGL devices.
"""

import extents
import pytest
from test_glsl_text import ES, HARDWARE, KERNELS, SOFTWARE

from sparkle_drv import TilePlan
from sparkle_drv.codegen import glsl


def grid(name, shader, **values):
    """The groups of a launch with these arguments, as core computes them."""
    names = [a["name"] for a in KERNELS[name]["args"] if a["type"] == "u32"]
    whole = {name: values.get(name, 0) for name in names}
    return [extents.value(text, whole) for text in shader.groups]


@pytest.mark.parametrize(
    ("plan", "size", "groups"),
    [
        (TilePlan(algo="blocked", levels=((32, 64, 8), (8, 8, 1))), (8, 4, 1), [4, 7]),
        (TilePlan(algo="shared", levels=((64, 64, 16), (4, 4, 1))), (16, 16, 1), [4, 4]),
        (TilePlan(algo="naive"), (8, 8, 1), [25, 25]),
        (TilePlan(algo="naive", levels=((16, 16, 1),)), (16, 16, 1), [13, 13]),
    ],
)
def test_gemm_tiles(plan, size, groups):
    shader = glsl.generate("gemm_f32", plan, HARDWARE)
    assert shader.group_size == size
    assert grid("gemm_f32", shader, m=200, n=200, k=3) == groups


def test_conv2d_tiles_do_not_cross_groups_of_channels():
    plan = TilePlan(algo="direct", levels=((16, 32, 4), (8, 4, 1)))
    shader = glsl.generate("conv2d_f32", plan, HARDWARE)
    assert shader.group_size == (8, 2, 1)
    # 3 parts of 20 channels: two tiles each; 2 * 5 * 7 pixels: three.
    assert grid("conv2d_f32", shader, n=2, oh=5, ow=7, oc=60, groups=3) == [3, 6]


def test_elementwise_threads_and_vectors():
    shader = glsl.generate("saxpy_f32", TilePlan(vector=4, levels=((64, 1, 1),)), HARDWARE)
    assert shader.group_size == (64, 1, 1)
    assert grid("saxpy_f32", shader, n=1000) == [4]
    shader = glsl.generate("saxpy_f32", None, HARDWARE)
    assert (shader.group_size, grid("saxpy_f32", shader, n=1000)) == ((256, 1, 1), [4])


@pytest.mark.parametrize("outer", [0, 1, 5, 300])
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 1000, 10**6])
@pytest.mark.parametrize("inner", [0, 1, 2, 127, 128, 129, 255, 256, 257, 1000])
def test_the_grid_of_a_reduction_is_what_its_shader_counts_on(outer, n, inner):
    for size in (64, 256, 1000):
        plan = TilePlan(levels=((size, 1, 1),))
        shader = glsl.generate("reduce_sum_f32", plan, HARDWARE)
        across, down = grid("reduce_sum_f32", shader, outer=outer, n=n, inner=inner)
        columns = min(size, 256)
        per = size // max(1, min(inner, columns))
        rows = min((n + 16) // 16, per)
        assert across == -(-inner // columns)
        assert down == -(-outer // (per // rows))


def test_map_written_out_has_no_loop():
    text = glsl.generate("map_f32", TilePlan(program=(1, 0x101, 3, 9)), SOFTWARE).source
    assert "sp_relu(v2)" in text
    assert "for (" not in text


@pytest.mark.parametrize(
    ("name", "plan", "said"),
    [
        ("gemm_f32", TilePlan(algo="winograd"), "algo: .* got 'winograd'"),
        ("gemm_f32", TilePlan(algo="blocked", levels=((30, 64, 8), (8, 8, 1))), "multiples"),
        ("gemm_f32", TilePlan(algo="blocked", levels=((256, 256, 8), (4, 4, 1))), "4096 threads"),
        ("gemm_f32", TilePlan(algo="shared", levels=((128, 128, 64), (8, 8, 1))), "shared memory"),
        ("gemm_f64", TilePlan(algo="shared", levels=((64, 64, 64), (4, 4, 1))), "65536 bytes"),
        ("gemm_f32", TilePlan(vector=3), "vector"),
        (
            "gemm_f32",
            TilePlan(levels=((64, 64, 8), (64, 64, 1))),
            "512 outputs per thread at most, got 4096",
        ),
        ("gemm_f32", TilePlan(levels=((-8, 64, 8), (8, 8, 1))), "sizes of 1 or more"),
        ("conv2d_f32", TilePlan(algo="blocked"), "algo: .* got 'blocked'"),
        ("saxpy_f32", TilePlan(levels=((2048, 1, 1),)), "threads a group on egl:0, got 2048"),
        ("map_f32", TilePlan(program=(3,)), "no program"),
        ("map_f32", TilePlan(program=(1, 1)), "no program"),
        ("map_i32", TilePlan(program=(1, 0xA)), "'1,a' is no program for map_i32"),
        (
            "map_f32",
            TilePlan(algo="program:1"),
            "algo: expected auto for map on egl, got 'program:1'",
        ),
    ],
)
def test_a_plan_that_cannot_be_had_says_which_field(name, plan, said):
    with pytest.raises(ValueError, match=said):
        glsl.generate(name, plan, HARDWARE)


def test_groups_shrink_to_what_a_small_device_takes():
    assert glsl.generate("copy_f32", None, ES).group_size == (256, 1, 1)
    assert glsl.generate("gemm_f32", None, ES).group_size == (16, 16, 1)
