"""ops on egl:0 against float64 numpy. Random gemms and convolutions use the tile model's plans;
map, reduce and layout run in a few forms each.

When this fails, operations on OpenGL devices are wrong for some shape.
"""

import numpy as np
import pytest
from agree import agree

from sparkle_drv import ops
from sparkle_drv.ops import ref, tiles
from sparkle_drv.ops.tiles import gpu as tiles_gpu

SIZES = [1, 2, 3, 5, 8, 13, 16, 17, 31, 32, 47, 64, 67, 96, 101, 128]
ACTIVATIONS = [None, None, "relu", "tanh", "sigmoid"]


@pytest.fixture(scope="module")
def egl(opened):
    return opened("egl:0")


def test_random_gemms(egl):
    rng = np.random.default_rng(1)
    for at in range(80):
        dtype = np.float64 if at % 8 == 7 and "f64" in egl.info.features else np.float32
        m, n, k = (int(v) for v in rng.choice(SIZES, 3))
        a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
        if rng.integers(4) == 0:
            b = np.asfortranarray(b)
        bias = rng.standard_normal(n).astype(dtype) if rng.integers(2) else None
        activation = ACTIVATIONS[rng.integers(len(ACTIVATIONS))]
        got = ops.gemm(egl, a, b, bias=bias, activation=activation)
        want = ref.gemm(a, b, bias, activation)
        rms = 1.0 if activation in ("tanh", "sigmoid") else k**0.5
        agree(got, want, ref.tolerance("gemm", dtype, k), rms, f"{m} {n} {k} {activation}")


def test_random_convolutions(egl):
    rng = np.random.default_rng(2)
    for at in range(80):
        groups = int(rng.choice([1, 1, 1, 2, 4]))
        n, inputs, outputs = int(rng.integers(1, 3)), *(int(v) for v in rng.integers(1, 20, 2))
        kernel, dilation, stride = (
            rng.integers(1, 4, 2),
            rng.integers(1, 3, 2),
            rng.integers(1, 3, 2),
        )
        pad = tuple(int(v) for v in rng.integers(0, 3, 2))
        size = rng.integers(1, 20, 2) + (kernel - 1) * dilation
        layout = ("NCHW", "NHWC")[at % 2]
        c = groups * inputs
        shape = (n, c, *size) if layout == "NCHW" else (n, *size, c)
        x = rng.standard_normal(shape).astype(np.float32)
        w = rng.standard_normal((groups * outputs, inputs, *kernel)).astype(np.float32)
        bias = rng.standard_normal(groups * outputs).astype(np.float32) if rng.integers(2) else None
        activation = ACTIVATIONS[rng.integers(len(ACTIVATIONS))]
        same = dict(
            stride=tuple(map(int, stride)), dilation=tuple(map(int, dilation)), groups=groups,
            activation=activation, layout=layout,
        )  # fmt: skip
        got = ops.conv2d(egl, x, w, bias, padding=pad, **same)
        want = ref.conv2d(x, w, bias, padding=tuple((p, p) for p in pad), **same)
        terms = inputs * int(np.prod(kernel))
        rms = 1.0 if activation in ("tanh", "sigmoid") else terms**0.5
        agree(got, want, ref.tolerance("conv2d", np.float32, terms), rms, f"{shape} {same}")


@pytest.mark.parametrize("algo", ["naive", "blocked"])
def test_gemm_by_name_of_the_algorithm(egl, algo):
    a, b = np.random.default_rng(3).standard_normal((2, 50, 50)).astype(np.float32)
    agree(ops.gemm(egl, a, b, algo=algo), a.astype(float) @ b, ref.tolerance("gemm", a.dtype, 50))


def test_map_reduce_and_layout(egl):
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((2, 33, 70)).astype(np.float32)
    got = ops.map(egl, "relu(a*x + y) - 1", a=2.0, x=x, y=y)
    agree(got, np.maximum(2 * x.astype(float) + y, 0) - 1, ref.tolerance("map", np.float32))
    for axis in (None, 0, 1):
        for op in ("sum", "max", "min", "mean"):
            want = getattr(np, op)(x.astype(float), axis=axis)
            agree(ops.reduce(egl, x, op, axis=axis), want, ref.tolerance("sum", x.dtype, 2310), 50)
    whole = rng.integers(-(2**31), 2**31, (40, 50), dtype=np.int64).astype(np.int32)
    assert (ops.reduce(egl, whole, "sum", axis=0) == whole.sum(0, dtype=np.int64)).all()
    image = rng.standard_normal((2, 5, 6, 7)).astype(np.float32)
    assert (ops.layout(egl, image, "NHWC") == image.transpose(0, 2, 3, 1)).all()


@pytest.mark.parametrize("n", [16384, 16391])
def test_expressions_over_many_elements_become_shaders(egl, n):
    x, y = np.random.default_rng(5).uniform(0.1, 2, (2, n)).astype(np.float32)
    whole = np.arange(-n // 2, n - n // 2, dtype=np.int32)
    egl.kept.pop("ops expressions", None)
    for _ in range(2):
        got = ops.map(egl, "tanh(a*x) + max(y, b) ** 2 / x", a=0.5, b=1.5, x=x, y=y)
        want = np.tanh(0.5 * x.astype(float)) + np.maximum(y.astype(float), 1.5) ** 2 / x
        agree(got, want, ref.tolerance("map", np.float32))
        assert (ops.map(egl, "relu(3*x - 1)", whole) == np.maximum(3 * whole - 1, 0)).all()
    assert len(egl.kept["ops expressions"]) == 2
    # The same expression with other constants is the same shader.
    got = ops.map(egl, "tanh(a*x) + max(y, b) ** 2 / x", a=-1.0, b=0.5, x=x, y=y)
    want = np.tanh(-x.astype(float)) + np.maximum(y.astype(float), 0.5) ** 2 / x
    agree(got, want, ref.tolerance("map", np.float32))
    assert len(egl.kept["ops expressions"]) == 2


def test_short_arrays_do_not_wait_for_a_compiler(egl):
    before = len(egl.kept.get("ops expressions", {}))
    ops.map(egl, "x * 7 + 3", np.ones(100, np.float32))
    assert len(egl.kept.get("ops expressions", {})) == before


def test_types_that_only_some_kernels_have(egl):
    if not egl.provides("reduce_sum_f64"):
        pytest.skip(f"{egl.info.name} has no float64")
    x = np.ones((3, 4))
    assert ops.reduce(egl, x) == 12
    with pytest.raises(TypeError, match="mean: egl:0 computes float32, not float64"):
        ops.reduce(egl, x, "mean")
    with pytest.raises(TypeError, match="map: egl:0 computes float32 and int32, not float64"):
        ops.map(egl, "x + 1", x)


@pytest.fixture
def long_row(egl, monkeypatch):
    """Shorter rows than usual are reduced in parts: a device of 256 cores would want 2**25 values,
    more than a pointer of llvmpipe reaches. The least length of such a row.
    """
    monkeypatch.setattr(tiles_gpu, "WORTH_PARTS", 1 << 11)
    least = tiles.reduce_parts(egl.info, 1 << 40) << 11
    assert tiles.reduce_parts(egl.info, least) > 1
    return least


@pytest.mark.parametrize("more", [0, 1, 3, 4, 1001])
@pytest.mark.parametrize("op", ["sum", "max", "min", "mean"])
def test_long_rows_are_reduced_in_parts(egl, long_row, op, more):
    n = long_row + more
    x = np.random.default_rng(6).standard_normal(n).astype(np.float32)
    x[-1] = {"max": 9.0, "min": -9.0}.get(op, x[-1])
    want = getattr(np, op)(x.astype(float))
    agree(
        ops.reduce(egl, x, op),
        want,
        ref.tolerance("sum", x.dtype, n),
        1.0 if op == "mean" else n**0.5,
    )
    on_device = ops.reduce(egl, egl.array(x), op, keepdims=True)
    agree(
        on_device.numpy(), want, ref.tolerance("sum", x.dtype, n), 1.0 if op == "mean" else n**0.5
    )


def test_long_rows_of_i32_and_nan(egl, long_row):
    n = long_row + 5
    whole = np.random.default_rng(7).integers(-(2**31), 2**31, n, dtype=np.int64).astype(np.int32)
    assert ops.reduce(egl, whole) == whole.sum(dtype=np.int64)
    x = np.zeros(n, np.float32)
    x[n // 3] = np.nan
    assert np.isnan(ops.reduce(egl, x, "max"))


@pytest.mark.parametrize("k", [65_535, 70_001])
def test_gemm_of_more_terms_than_llvmpipe_has_rounds(egl, k):
    rng = np.random.default_rng(9)
    a = rng.integers(-3, 4, (2, k)).astype(np.float32)
    b = rng.integers(-3, 4, (k, 3)).astype(np.float32)
    assert np.array_equal(ops.gemm(egl, a, b, activation="relu"), np.maximum(a @ b, 0))
