"""The oracles: against loops so plain that they need no oracle, and against the manifest.

When this fails, the references are wrong, so every check against them says nothing.
"""

import math

import numpy as np
import pytest

from sparkle_drv import assets
from sparkle_drv.ops import ref
from sparkle_drv.ops.expression import program

RNG = np.random.default_rng(20)


def looped_conv2d(x, w, bias, stride, padding, dilation, groups):
    n, _, h, width = x.shape
    oc, per_group, kh, kw = w.shape
    (top, bottom), (left, right) = padding
    oh = (h + top + bottom - (kh - 1) * dilation[0] - 1) // stride[0] + 1
    ow = (width + left + right - (kw - 1) * dilation[1] - 1) // stride[1] + 1
    y = np.zeros((n, oc, oh, ow))
    for b, o, i, j in np.ndindex(*y.shape):
        total = float(bias[o])
        for p, u, v in np.ndindex(per_group, kh, kw):
            row = i * stride[0] + u * dilation[0] - top
            col = j * stride[1] + v * dilation[1] - left
            if 0 <= row < h and 0 <= col < width:
                channel = o // (oc // groups) * per_group + p
                total += float(x[b, channel, row, col]) * float(w[o, p, u, v])
        y[b, o, i, j] = total
    return y


@pytest.mark.parametrize(
    ("groups", "stride", "padding", "dilation"),
    [
        (1, (1, 1), ((0, 0), (0, 0)), (1, 1)),
        (2, (2, 1), ((1, 2), (0, 1)), (1, 2)),
        (4, (1, 3), ((2, 0), (3, 3)), (2, 1)),
    ],
)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_conv2d_is_what_the_loops_say(groups, stride, padding, dilation, layout):
    x = RNG.standard_normal((2, 4, 7, 6), dtype=np.float32)
    w = RNG.standard_normal((8, 4 // groups, 3, 2), dtype=np.float32)
    bias = RNG.standard_normal(8, dtype=np.float32)
    want = np.maximum(looped_conv2d(x, w, bias, stride, padding, dilation, groups), 0)
    nhwc = layout == "NHWC"
    got = ref.conv2d(
        np.moveaxis(x, 1, 3) if nhwc else x, w, bias, stride=stride, padding=padding,
        dilation=dilation, groups=groups, activation="relu", layout=layout,
    )  # fmt: skip
    np.testing.assert_allclose(
        np.moveaxis(got, 3, 1) if nhwc else got, want, rtol=1e-12, atol=1e-12
    )


def test_the_conv2d_kernel_oracle_takes_the_launch_arguments():
    x = RNG.standard_normal((2, 4, 5, 5), dtype=np.float32)
    w = RNG.standard_normal((6, 2, 3, 3), dtype=np.float32)
    want = ref.conv2d(x, w, stride=(2, 1), padding=((1, 1), (1, 1)), groups=2)
    sizes = (2, 4, 5, 5, 6, 3, 3, 3, 5, 2, 1, 1, 1, 1, 1, 2)
    got = ref.kernel("conv2d_f32")(None, x, w, None, *sizes, 0, 0)
    np.testing.assert_array_equal(got, want.reshape(-1))
    got = ref.kernel("conv2d_f32")(None, np.moveaxis(x, 1, 3), w, np.ones(6), *sizes, 1, 1)
    np.testing.assert_allclose(got, np.maximum(np.moveaxis(want, 1, 3) + 1, 0).reshape(-1))


def test_gemm_and_its_kernel_oracle():
    a = RNG.standard_normal((3, 5), dtype=np.float32)
    b = RNG.standard_normal((5, 2), dtype=np.float32)
    bias = np.array([1.0, -2.0], np.float32)
    want = [
        [sum(float(a[i, p]) * float(b[p, j]) for p in range(5)) for j in range(2)] for i in range(3)
    ]
    np.testing.assert_allclose(ref.gemm(a, b), want, rtol=1e-14)
    np.testing.assert_allclose(ref.gemm(a, b, bias, "tanh"), np.tanh(want + bias), rtol=1e-14)
    # Rows of c four apart: what lies between them must come back as it was. a is given transposed.
    c = np.full(10, 7.0, np.float32)
    got = ref.kernel("gemm_f32")(c, a.T.copy(), b, bias, 3, 2, 5, 1, 3, 2, 1, 4, 0)
    np.testing.assert_allclose(got.take([0, 1, 4, 5, 8, 9]).reshape(3, 2), want + bias, rtol=1e-14)
    assert (got[[2, 3, 6, 7]] == 7).all()
    assert ref.kernel("gemm_f64")(c, a, b, None, 0, 2, 5, 5, 1, 2, 1, 2, 0).size == 0


def test_every_manifest_kernel_has_an_oracle():
    for name in assets.manifest()["kernels"]:
        assert callable(ref.kernel(name)), name
    for wrong in ("gemm_f16", "nonsense_f32", "gemm"):
        with pytest.raises(KeyError, match=wrong):
            ref.kernel(wrong)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_elementwise_kernel_oracles(dtype):
    tag = {np.float32: "f32", np.float64: "f64", np.int32: "i32"}[dtype]
    x = np.array([-3, 0, 2, 5], dtype)
    y = np.array([10, 20, 30, 40], dtype)
    assert ref.kernel(f"copy_{tag}")(y, x, 4).tolist() == [-3, 0, 2, 5]
    assert ref.kernel(f"fill_{tag}")(y, 9, 3).tolist() == [9, 9, 9]
    assert ref.kernel(f"vecadd_{tag}")(y, x, y, 3).tolist() == [7, 20, 32]
    assert ref.kernel(f"relu_{tag}")(y, x, 4).tolist() == [0, 0, 2, 5]
    assert ref.kernel(f"abs_{tag}")(y, x, 4).tolist() == [3, 0, 2, 5]
    assert ref.kernel(f"neg_{tag}")(y, x, 4).tolist() == [3, 0, -2, -5]
    if dtype != np.int32:
        assert ref.kernel(f"exp_{tag}")(y, x, 2).tolist() == [math.exp(-3), 1]
        assert ref.kernel(f"tanh_{tag}")(y, x, 2)[0] == pytest.approx(math.tanh(-3), rel=1e-15)
        assert ref.kernel(f"axpby_{tag}")(y, x, 2, 3, 4).tolist() == [24, 60, 94, 130]
    if dtype == np.float32:
        # The scalar reaches the kernel as f32: the oracle must not use more digits than it had.
        assert ref.kernel("saxpy_f32")(y, x, 0.1, 3)[2] == 30 + 2 * float(np.float32(0.1))


def test_kernel_oracles_without_a_formula():
    x = 1
    for _ in range(3):
        x = (x * 1664525 + 1013904223) % 2**32
    assert ref.kernel("busy_u32")(np.zeros(1, np.uint32), 3).tolist() == [x]
    assert ref.kernel("noop")() is None
    assert ref.kernel("peak_fma_f32")(np.zeros(1, np.uint64), 10) is None


def test_reductions():
    a = RNG.integers(-(2**31), 2**31, (3, 4, 5), dtype=np.int32)
    assert ref.reduce(a, "sum").dtype == np.int64
    assert ref.reduce(a, "sum") == sum(a.ravel().tolist())
    assert ref.reduce(a, "max", (0, 2), keepdims=True).shape == (1, 4, 1)
    assert np.isnan(ref.reduce(np.zeros((0,), np.float32), "mean"))
    cube = RNG.standard_normal((2, 3, 4), dtype=np.float32)
    got = ref.kernel("reduce_sum_f32")(None, cube, 2, 3, 4)
    np.testing.assert_array_equal(got, cube.astype(float).sum(axis=1).ravel())
    assert (ref.kernel("reduce_min_f32")(None, cube, 2, 3, 4) == cube.min(axis=1).ravel()).all()


def test_layouts_round_trip_and_pad_with_zeros():
    x = RNG.standard_normal((2, 5, 3, 4), dtype=np.float32)
    nhwc = ref.layout(x, "NCHW", "NHWC")
    assert nhwc[1, 2, 3, 4] == x[1, 4, 2, 3]
    blocked = ref.layout(x, "NCHW", "NCHW4c")
    assert blocked.shape == (2, 2, 3, 4, 4)
    assert blocked[1, 1, 2, 3, 0] == x[1, 4, 2, 3]
    assert not blocked[:, 1, ..., 1:].any()
    for moved, source in ((nhwc, "NHWC"), (blocked, "NCHW4c")):
        np.testing.assert_array_equal(ref.layout(moved, source, "NCHW", 5), x)
    sizes = (2, 5, 3, 4)
    assert (ref.kernel("nchw_to_nhwc_f32")(None, x, *sizes) == nhwc.ravel()).all()
    assert (ref.kernel("nhwc_to_nchw_f32")(None, nhwc, *sizes) == x.ravel()).all()
    assert (ref.kernel("nchw_to_blocked_f32")(None, x, *sizes, 4) == blocked.ravel()).all()
    assert (ref.kernel("blocked_to_nchw_f32")(None, blocked, *sizes, 4) == x.ravel()).all()


def test_map_runs_the_program_that_was_compiled():
    code = program.compile_map("relu(a*x + y) - 1.5", frozenset("a"), "f32")
    x, y = RNG.standard_normal((2, 9))
    consts = np.array([2.0 if c == "a" else c for c in code.constants])
    words = np.array(code.words, np.uint32)
    inputs = [x, y, *[None] * 6]
    got = ref.kernel("map_f32")(None, *inputs, words, consts, len(words), len(consts), 9)
    np.testing.assert_array_equal(got, np.maximum(2 * x + y, 0) - 1.5)
    np.testing.assert_array_equal(ref.map("relu(a*x + y) - 1.5", a=2, x=x, y=y), got)
    with pytest.raises(ValueError, match="unknown operation"):
        ref.kernel("map_f32")(None, *inputs, np.array([255], np.uint32), None, 1, 0, 9)


def test_map_of_whole_numbers_wraps_around():
    x = np.array([2**31 - 1, -(2**31)], np.int32)
    assert ref.map("x + 1", x=x).tolist() == [-(2**31), -(2**31) + 1]
    assert ref.map("abs(x)", x=x).tolist() == [2**31 - 1, -(2**31)]


@pytest.mark.parametrize("x", [-800.0, -1.0, 0.0, 1.0, 800.0])
def test_sigmoid_neither_overflows_nor_loses_digits(x):
    want = 1 / (1 + math.exp(-x)) if x > -700 else 0.0
    assert float(ref.activate(np.array(x), "sigmoid")) == pytest.approx(want, rel=1e-14)


def test_mismatch_names_the_first_wrong_element():
    want = np.array([1.0, -1.0, 1.0, np.nan, np.inf])
    near = np.array([1.0, -1.0 + 1e-7, 1.0, np.nan, np.inf], np.float32)
    assert ref.mismatch(near, want, 1e-6).index is None
    assert ref.mismatch(near, want, 1e-6).error == pytest.approx(1.2e-7, rel=0.1)
    far = want.copy()
    far[[1, 2]] = 0
    miss = ref.mismatch(far, want, 1e-6)
    assert (miss.index, miss.want, miss.got, miss.error) == (1, -1.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("got", "want"),
    [
        ([np.nan, 1.0], [1.0, 1.0]),
        ([1.0, 1.0], [np.nan, 1.0]),
        ([-np.inf, 1.0], [np.inf, 1.0]),
        ([np.inf, 1.0], [0.0, 1.0]),
        ([5.0, 0.0], [0.0, 0.0]),
    ],
)
def test_mismatch_never_accepts_what_is_not_a_number(got, want):
    miss = ref.mismatch(np.array(got), np.array(want), 1e-3)
    assert miss.index == 0
    assert miss.error == np.inf


def test_mismatch_at_its_edges():
    assert ref.mismatch(np.zeros(0), np.zeros(0), 0.0).index is None
    assert ref.mismatch(np.arange(3, dtype=np.int32), np.arange(3), 0.0).index is None
    assert ref.mismatch(np.array([2**40]), np.array([2**40 + 1]), 0.0).index == 0
    # One output that is small by chance is judged by what it should have been.
    assert ref.mismatch(np.array([1e-6]), np.array([0.0]), 1e-5, rms=1.0).index is None
    with pytest.raises(ValueError, match="expected 3 elements, as in want, got 2"):
        ref.mismatch(np.zeros(2), np.zeros(3), 0.0)


def test_tolerances():
    eps = float(np.finfo(np.float32).eps)
    assert ref.tolerance("gemm_f32", k=100) == ref.tolerance("gemm", np.float32, 100)
    assert ref.tolerance("conv2d_f32", k=10**4) < 0.01 * 10**4 * 4 * eps + 400 * eps
    assert ref.tolerance("reduce_sum_i32", k=10) == ref.tolerance("copy_f32") == 0.0
    assert ref.tolerance("nchw_to_nhwc_f32") == ref.tolerance("reduce_max_f64") == 0.0
    assert 0 < ref.tolerance("exp_f64") < 1e-14
    for name in assets.manifest()["kernels"]:
        if name not in ("noop", "busy_u32") and not name.startswith("peak"):
            assert 0 <= ref.tolerance(name, k=64) < 1e-4, name


def test_a_sequential_f32_sum_is_within_the_tolerance_and_a_lost_term_is_not():
    a = RNG.standard_normal((64, 1000), dtype=np.float32)
    b = RNG.standard_normal((1000, 3), dtype=np.float32)
    slow = np.zeros((64, 3), np.float32)
    for p in range(1000):
        slow += a[:, p, None] * b[p]
    limit = ref.tolerance("gemm_f32", k=1000)
    assert ref.mismatch(slow, ref.gemm(a, b), limit).index is None
    assert ref.mismatch(slow, ref.gemm(a[:, 1:], b[1:]), limit).index is not None


def test_arguments_follow_the_manifest():
    signature = assets.manifest()["kernels"]["saxpy_f32"]["args"]
    assert ref.arguments(signature, n=3, a=2.0, x="x", y="y") == ["y", "x", 2.0, 3]
    gemm = assets.manifest()["kernels"]["gemm_f32"]["args"]
    sizes = dict.fromkeys((arg["name"] for arg in gemm if not arg["type"].endswith("*")), 1)
    assert ref.arguments(gemm, a=1, b=2, c=3, **sizes)[3] is None
    with pytest.raises(KeyError):
        ref.arguments(signature, n=3, a=2.0, x="x")
