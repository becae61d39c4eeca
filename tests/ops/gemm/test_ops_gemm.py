"""ops.gemm on the cpu: random shapes per instruction set and type, memory, bad input.

When this fails, gemm on the cpu is wrong for some shape, type or memory order.
"""

import dataclasses

import numpy as np
import pytest
from agree import agree
from isas import HERE, usual_and_past

import sparkle_drv as sp
from sparkle_drv.ops import gemm, ref

SIZES = [1, 2, 3, 5, 7, 8, 13, 14, 15, 16, 17, 28, 31, 32, 33, 47, 61, 64, 67, 97, 101, 128, 131]
ACTIVATIONS = [None, None, "relu", "tanh", "sigmoid"]
ALGOS = ["auto", "auto", "blocked", "naive"]


def keep_busy(dev, queue=None):
    """Work for some 50 ms; by `submit`, because `launch` runs one group in the caller."""
    slow = sp.Commands().dispatch(dev.kernel("busy_u32"), dev.buffer(4), 50_000_000, groups=1)
    (queue or dev.default_queue).submit(slow)


def laid_out(rng, shape, dtype):
    """Random values in one of the ways an operand may lie in memory."""
    rows, columns = shape
    how = rng.integers(7)
    if how == 0:
        return np.asfortranarray(rng.standard_normal(shape).astype(dtype))
    if how == 1:
        return rng.standard_normal((rows, columns + 3)).astype(dtype)[:, 2:-1]
    if how == 2:
        return rng.standard_normal((2 * rows, 3 * columns)).astype(dtype)[::2, ::3]
    if how == 3:
        return rng.standard_normal(shape).astype(dtype)[::-1, ::-1]
    if how == 4:
        return np.broadcast_to(rng.standard_normal((1, columns)).astype(dtype), shape)
    made = rng.standard_normal(shape).astype(dtype)
    made.flags.writeable = how == 5
    return made


@pytest.mark.unmeasured
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_random_shapes(isa_dev, dtype):
    rng = np.random.default_rng(1)
    for i in range(80):
        m, n, k = (int(v) for v in rng.choice(SIZES, 3))
        a, b = laid_out(rng, (m, k), dtype), laid_out(rng, (k, n), dtype)
        bias = rng.standard_normal(n).astype(dtype) if rng.integers(2) else None
        options = {"activation": rng.choice(ACTIVATIONS), "algo": str(rng.choice(ALGOS))}
        got = gemm(isa_dev, a, b, bias=bias, **options)
        want = ref.gemm(a, b, bias, options["activation"])
        rms = 1.0 if options["activation"] in ("tanh", "sigmoid") else np.sqrt(k)
        assert got.dtype == dtype
        agree(got, want, ref.tolerance("gemm", dtype, k), rms, f"{i}: {m} {n} {k} {options}")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_larger_than_one_block_of_every_loop(isa_dev, dtype):
    rng = np.random.default_rng(2)
    m, n, k = 211, 1031, 1013
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    got = gemm(isa_dev, a, b, algo="blocked")
    agree(got, ref.gemm(a, b), ref.tolerance("gemm", dtype, k), np.sqrt(k))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_of_rows_that_are_packed_while_others_are_computed(isa_dev, dtype):
    """Two and a half blocks of rows, a last panel that is cut, b packed in parts and as a whole."""
    rng = np.random.default_rng(11)
    a = rng.standard_normal((215, 1030)).astype(dtype)
    b = rng.standard_normal((1030, 331)).astype(dtype)
    want = a.astype(np.float64) @ b.astype(np.float64)
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    for rows in (215, 170, 169, 85, 84, 20):
        for given in (b, np.asfortranarray(b)):
            got = gemm(isa_dev, a[:rows], given)
            np.testing.assert_allclose(got, want[:rows], rtol=tolerance, atol=40 * tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("terms", [1, 17])
@pytest.mark.parametrize("isa", HERE)
def test_a_large_result_that_begins_anywhere_in_a_line(isa, dtype, terms):
    """Some of it goes past the caches, by whole lines; what is beside it stays as it is."""
    with usual_and_past(isa) as (_, past):
        large_result(past, dtype, terms)


def large_result(dev, dtype, terms):
    rng = np.random.default_rng(12)
    rows, columns = 107, 2000
    a = rng.standard_normal((rows, terms)).astype(dtype)
    b = rng.standard_normal((terms, columns)).astype(dtype)
    want = a.astype(np.float64) @ b.astype(np.float64)
    tolerance = 1e-5 if dtype == np.float32 else 1e-13
    whole = np.empty((rows, 2048), dtype)
    for first in (0, 1, 4, 15, 16, 31):
        whole.fill(7)
        out = whole[:, first : first + columns]
        gemm(dev, a, b, out)
        np.testing.assert_allclose(out, want, rtol=tolerance, atol=10 * tolerance)
        assert (whole[:, :first] == 7).all()
        assert (whole[:, first + columns :] == 7).all()
    bias = rng.standard_normal(columns).astype(dtype)
    gemm(dev, a, b, out, bias=bias, activation="relu")
    np.testing.assert_allclose(out, np.maximum(want + bias, 0), rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_vector_times_a_matrix_that_begins_anywhere_in_a_line(isa_dev, dtype):
    rng = np.random.default_rng(13)
    x = rng.standard_normal((1, 29)).astype(dtype)
    for width in (64, 67):  # rows that are lines, and that are not
        matrix = rng.standard_normal((29, width)).astype(dtype)
        for first in (0, 1, 4, 15, 17):
            for columns in (1, 7, 16, 40, width - first):
                b = matrix[:, first : first + columns]
                want = x.astype(np.float64) @ b.astype(np.float64)
                np.testing.assert_allclose(gemm(isa_dev, x, b), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_small_product_has_the_bits_of_its_rows_in_a_large_one(isa_dev, dtype):
    """It goes its own way to the micro-kernel, and adds up in the same order."""
    rng = np.random.default_rng(14)
    for n, k in [(8, 8), (16, 16), (33, 7), (64, 64), (70, 65), (100, 3)]:
        a = rng.standard_normal((2000, k)).astype(dtype)
        b = rng.standard_normal((k, n)).astype(dtype)
        bias = rng.standard_normal(n).astype(dtype)
        large = gemm(isa_dev, a, b, bias=bias, activation="relu")
        for m in (2, 5, 16, 33, 64):
            given = {"bias": bias, "activation": "relu"}
            assert (gemm(isa_dev, a[:m], b, **given) == large[:m]).all(), (m, n, k)


def test_a_vector_times_a_matrix_that_no_cache_holds(isa_dev):
    rng = np.random.default_rng(15)
    x = rng.standard_normal((1, 2053)).astype(np.float32)
    b = rng.standard_normal((2053, 4099), np.float32)
    agree(gemm(isa_dev, x, b), ref.gemm(x, b), ref.tolerance("gemm", np.float32, 2053), 46)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_few_rows_times_a_transposed_matrix(isa_dev, dtype):
    """As x @ W.T: all groups of rows, rests of every kind, several slices of k."""
    rng = np.random.default_rng(16)
    shapes = [(m, 98, 131) for m in range(2, 18)]
    shapes += [(4, 16, 64), (3, 17, 65), (5, 15, 63), (8, 100, 9001), (32, 97, 4133), (33, 40, 70)]
    for m, n, k in shapes:
        a = laid_out(rng, (m, k), dtype)
        whole = rng.standard_normal((n, k + 5)).astype(dtype)
        bias = rng.standard_normal(n).astype(dtype)
        around = np.full((m, n + 4), 7, dtype)
        for b in (whole[:, 3 : k + 3].T, whole[::-1, :k].copy().T):
            out = around[:, 1 : n + 1]
            gemm(isa_dev, a, b, out, bias=bias, activation="relu")
            plain = ref.gemm(a, b)
            rms = float(np.sqrt(np.mean(plain**2) + np.mean(bias**2)))
            want = np.maximum(plain + bias, 0)
            agree(out, want, ref.tolerance("gemm", dtype, k), rms, f"{m} {n} {k} {a.strides}")
            assert (around[:, 0] == 7).all()
            assert (around[:, n + 1 :] == 7).all()


def test_a_few_rows_times_a_transposed_matrix_that_no_cache_holds(isa_dev):
    rng = np.random.default_rng(17)
    a, w = rng.standard_normal((9, 2053), np.float32), rng.standard_normal((4099, 2053), np.float32)
    for m in (2, 5, 9):
        want = ref.gemm(a[:m], w.T)
        agree(gemm(isa_dev, a[:m], w.T), want, ref.tolerance("gemm", np.float32, 2053), 46)


def test_special_values_in_a_few_rows_stay_in_their_columns(isa_dev):
    a, w = np.ones((6, 77), np.float32), np.ones((40, 77), np.float32)
    w[3, 76], w[4, 5], w[5, 70] = np.nan, np.inf, -np.inf
    want = a.astype(np.float64) @ w.T
    np.testing.assert_array_equal(gemm(isa_dev, a, w.T), want)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_nothing_and_empty_results(dev, dtype):
    bias = np.array([1, -2, 3], dtype)
    none = gemm(dev, np.ones((2, 0), dtype), np.ones((0, 3), dtype), bias=bias, activation="relu")
    assert none.tolist() == [[1, 0, 3], [1, 0, 3]]
    assert gemm(dev, np.ones((2, 0), dtype), np.ones((0, 3), dtype)).tolist() == [[0] * 3] * 2
    assert gemm(dev, np.ones((0, 4), dtype), np.ones((4, 3), dtype)).shape == (0, 3)
    assert gemm(dev, np.ones((2, 4), dtype), np.ones((4, 0), dtype)).shape == (2, 0)
    on_device = gemm(dev, dev.array(np.ones((2, 0), dtype)), np.ones((0, 3), dtype), bias=bias)
    assert on_device.numpy().tolist() == [[1, -2, 3]] * 2
    assert gemm(dev, dev.array(np.ones((0, 4), dtype)), np.ones((4, 3), dtype)).shape == (0, 3)


def test_nan_and_infinity_stay_visible(dev):
    a = np.ones((3, 4), np.float32)
    a[0, 0], a[1, 1] = np.nan, np.inf
    got = gemm(dev, a, np.ones((4, 40), np.float32), activation="relu")
    assert np.isnan(got[0]).all()
    assert np.isposinf(got[1]).all()
    assert (got[2] == 4).all()


def outs():
    """Places for a 5 x 6 result, by name."""
    big = np.full((10, 20), 7, np.float32)
    return {
        "plain": np.full((5, 6), np.nan, np.float32),
        "rows apart": big[::2, 3:9],
        "columns apart": big[:5, :12:2],
        "fortran": np.full((6, 5), np.nan, np.float32).T,
        "backwards": big[4::-1, 5::-1],
        "unaligned": np.frombuffer(bytearray(121), np.uint8)[1:121].view(np.float32).reshape(5, 6),
    }


@pytest.mark.parametrize("name", outs())
def test_out_of_any_shape_in_memory(dev, name):
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((5, 4), np.float32), rng.standard_normal((4, 6), np.float32)
    out = outs()[name]
    whole = out if out.base is None else out.base
    before = whole.copy() if isinstance(whole, np.ndarray) else None
    assert gemm(dev, a, b, out) is out
    agree(out, ref.gemm(a, b), ref.tolerance("gemm_f32", k=4), 2.0)
    if before is not None and before.dtype == np.float32 and whole.size > out.size:
        assert (whole == before).sum() == whole.size - out.size


def test_out_whose_rows_share_memory_gets_what_numpy_would_store(dev):
    rng = np.random.default_rng(9)
    a, b = rng.standard_normal((40, 4), np.float32), rng.standard_normal((4, 80), np.float32)
    got, want = np.zeros(158, np.float32), np.zeros(158, np.float32)
    np.lib.stride_tricks.as_strided(want, (40, 80), (8, 4))[...] = gemm(dev, a, b)
    gemm(dev, a, b, np.lib.stride_tricks.as_strided(got, (40, 80), (8, 4)))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("which", ["a", "b", "a.T", "shifted", "bias"])
def test_out_may_overlap_an_input(dev, which):
    rng = np.random.default_rng(4)
    memory = rng.standard_normal((9, 8), np.float32)
    a = memory[:8]
    b, bias, out = rng.standard_normal((8, 8), np.float32), rng.standard_normal(8, np.float32), a
    if which == "b":
        out = b
    elif which == "a.T":
        out = a.T
    elif which == "shifted":
        out = memory[1:]
    elif which == "bias":
        out = rng.standard_normal((8, 8), np.float32)
        bias = out[3]
    want = ref.gemm(a, b, bias)
    assert gemm(dev, a, b, out, bias=bias) is out
    agree(out, want, ref.tolerance("gemm_f32", k=8), 3.0)


def test_arrays_are_asynchronous_and_give_arrays(dev):
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((33, 65), np.float32), rng.standard_normal((65, 17), np.float32)
    bias = rng.standard_normal(17, np.float32)
    made = gemm(dev, dev.array(a), dev.array(b), bias=dev.array(bias))
    assert isinstance(made, type(dev.array(a)))
    assert made.fence.wait().done
    agree(made.numpy(), ref.gemm(a, b, bias), ref.tolerance("gemm_f32", k=65), 8.0)
    out = dev.empty((33, 17), np.float32)
    mixed = gemm(dev, a.T.copy().T, dev.array(b), out, bias=bias)
    assert mixed is out
    np.testing.assert_array_equal(out.numpy(), made.numpy())


def test_a_numpy_operand_of_an_asynchronous_call_may_change_at_once(dev):
    a, b = np.ones((64, 64), np.float32), dev.array(np.ones((64, 64), np.float32))
    keep_busy(dev)
    made = gemm(dev, a, b)
    assert not made.fence.done
    a[:] = 5
    assert (made.numpy() == 64).all()


def test_a_numpy_result_is_there_even_behind_other_work(dev):
    keep_busy(dev)
    got = gemm(dev, np.ones((64, 64), np.float32), np.ones((64, 64), np.float32))
    assert (got == 64).all()


@pytest.mark.parametrize("shift", [0, 4])
def test_an_array_out_may_overlap_an_array_in(dev, shift):
    rng = np.random.default_rng(6)
    host = rng.standard_normal((8, 8), np.float32)
    memory = dev.buffer(4 * 72)
    memory.write(host)
    a = memory.array(np.float32, (8, 8))
    out = memory.view(4 * shift).array(np.float32, (8, 8))
    made = gemm(dev, a, dev.array(host), out)
    assert made is out
    agree(out.numpy(), ref.gemm(host, host), ref.tolerance("gemm_f32", k=8), 3.0)


def test_the_plan(dev):
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((20, 30), np.float32), rng.standard_normal((30, 10), np.float32)
    bias = rng.standard_normal(10, np.float32)
    want = np.maximum(ref.gemm(a, b, bias), 0)
    plan = gemm.plan(dev, 20, 10, 30, np.float32, activation="relu")
    out = np.empty((20, 10), np.float32)
    assert plan(a, b, out, bias).wait().done
    agree(out, want, ref.tolerance("gemm_f32", k=30), 5.0)
    held = [dev.array(v) for v in (a, b, out, bias)]
    held[2].numpy()[...] = np.nan
    go = plan.bind(*held)
    plan.queue.fence(go()).wait()
    agree(held[2].numpy(), want, ref.tolerance("gemm_f32", k=30), 5.0)
    wide = gemm.plan(dev, 2, 2, 2, "float64")
    got = np.empty((2, 2))
    wide(np.eye(2), np.eye(2) * 3, got).wait()
    assert got.tolist() == [[3, 0], [0, 3]]
    with pytest.raises(ValueError, match="gemm_f32: argument a"):
        plan(a[:3], b, out)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"m": 0}, ValueError, "m: expected 1 or more, got 0"),
        ({"n": 2.0}, TypeError, "n: expected a whole number, got 2.0"),
        ({"k": True}, TypeError, "k: expected a whole number"),
        ({"k": 2**32}, ValueError, "k: expected at most 2\\*\\*32 - 1"),
        ({"dtype": np.int32}, TypeError, "dtype: gemm takes float32 or float64, got int32"),
        (
            {"activation": "gelu"},
            ValueError,
            "activation: expected None, 'relu', 'tanh' or 'sigmoid'",
        ),
        ({"algo": "im2col"}, ValueError, "algo: expected 'auto', 'naive' or 'blocked'"),
    ],
)
def test_plans_of_nothing_sensible(dev, options, error, match):
    with pytest.raises(error, match=match):
        gemm.plan(dev, **{"m": 2, "n": 2, "k": 2, "dtype": np.float32, **options})


A, B = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)
READONLY = np.ones((3, 5), np.float32)
READONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("a", "b", "options", "error", "match"),
    [
        ([[1.0]], B, {}, TypeError, "a: expected a numpy array or an Array, got list"),
        (A, 3.0, {}, TypeError, "b: expected a numpy array or an Array, got float"),
        (np.ma.masked_array(A), B, {}, TypeError, "a: expected an array without a mask"),
        (A[0], B, {}, ValueError, r"a: expected 2 dimensions \(m, k\), got shape \(4,\)"),
        (A, B[None], {}, ValueError, r"b: expected 2 dimensions \(k, n\), got shape \(1, 4, 5\)"),
        (A.astype("i8"), B, {}, TypeError, "a: gemm takes float32 or .*, got int64"),
        (A.astype(">f4"), B, {}, TypeError, "a: gemm takes"),
        (A.astype(bool), B, {}, TypeError, "b: expected bool, the dtype of a, got float32"),
        (A, B.astype("f8"), {}, TypeError, "b: expected float32, the dtype of a, got float64"),
        (A, A, {}, ValueError, r"b: expected shape \(4, 4\) to go with a of shape \(3, 4\)"),
        (A, B, {"bias": np.ones(4, "f4")}, ValueError, r"bias: expected shape \(5,\)"),
        (A, B, {"bias": np.ones((1, 5), "f4")}, ValueError, r"bias: expected shape \(5,\)"),
        (A, B, {"bias": np.ones(5)}, TypeError, "bias: expected float32, the dtype of a"),
        (A, B, {"bias": [0] * 5}, TypeError, "bias: expected a numpy array"),
        (A, B, {"activation": "swish"}, ValueError, "activation: expected .*, got 'swish'"),
        (A, B, {"activation": 1}, TypeError, "activation: expected .*, got 1"),
        (A, B, {"algo": "fast"}, ValueError, "algo: .* got 'fast'"),
        (A, B, {"algo": None}, ValueError, "algo: .* got None"),
        (A, B, {"out": np.ones((5, 3), "f4")}, ValueError, r"out: expected shape \(3, 5\)"),
        (
            A,
            B,
            {"out": np.ones((3, 5))},
            TypeError,
            "out: expected float32, the dtype of the result",
        ),
        (A, B, {"out": READONLY}, ValueError, "out: expected a writable array"),
        (A, B, {"out": "here"}, TypeError, "out: expected a numpy array or an Array, got str"),
    ],
)
def test_bad_input(dev, a, b, options, error, match):
    before = dev.default_queue.submitted
    with pytest.raises(error, match=match):
        gemm(dev, a, b, **options)
    assert dev.default_queue.submitted == before


def test_a_broadcast_view_is_no_place_for_a_result(dev):
    view = np.lib.stride_tricks.as_strided(np.ones(5, np.float32), (3, 5), (0, 4))
    with pytest.raises(ValueError, match="out: expected separate elements"):
        gemm(dev, A, B, view)


def test_dimensions_beyond_u32_are_refused(dev):
    endless = np.broadcast_to(np.float32(1), (1, 2**32))
    with pytest.raises(ValueError, match=r"k: expected at most 2\*\*32 - 1, got 4294967296"):
        gemm(dev, endless, endless.T)


def test_arrays_in_wrong_places(dev):
    array = dev.array(A)
    with pytest.raises(TypeError, match="out: expected an Array because a is one"):
        gemm(dev, array, B, np.empty((3, 5), np.float32))
    with (
        sp.open("cpu") as other,
        pytest.raises(ValueError, match="a: expected an open Array of cpu, got one of"),
    ):
        gemm(other, array, B)
    readonly = dev.wrap(READONLY).array(np.float32, (3, 5))
    with pytest.raises(ValueError, match="out: expected a writable Array"):
        gemm(dev, array, B, readonly)
    array.close()
    with pytest.raises(ValueError, match="a: expected an open Array of cpu, got a closed one"):
        gemm(dev, array, B)
    with pytest.raises(TypeError, match=r"dev: expected a Device .*, got str"):
        gemm("cpu", A, B)


def test_a_closed_device_says_so():
    device = sp.open("cpu")
    gemm(device, A, B)
    device.close()
    with pytest.raises(sp.DeviceLost, match="closed"):
        gemm(device, A, B)


def test_memory_that_is_not_shared_with_the_host(dev, monkeypatch):
    rng = np.random.default_rng(8)
    a, b = rng.standard_normal((9, 8), np.float32), rng.standard_normal((8, 7), np.float32)
    want = ref.gemm(a, b)
    apart = dataclasses.replace(dev.info, unified=False)
    monkeypatch.setattr(dev._backend, "info", apart)
    agree(gemm(dev, a[::-1][::-1], b), want, ref.tolerance("gemm_f32", k=8), 3.0)
    out = np.empty((14, 9), np.float32)[::2].T
    assert gemm(dev, a, b, out) is out
    agree(out, want, ref.tolerance("gemm_f32", k=8), 3.0)
    made = gemm(dev, dev.array(a), b)
    agree(made.numpy(), want, ref.tolerance("gemm_f32", k=8), 3.0)


def test_work_of_another_queue_comes_first(dev):
    host = np.ones((64, 64), np.float32)
    other = dev.queue()
    a = dev.empty((64, 64), np.float32)
    keep_busy(dev, other)
    a.fence = other.write(a.buffer, host)
    pending = not a.fence.done
    made = gemm(dev, a, host)
    assert pending
    assert (made.numpy() == 64).all()


def test_kernels_are_loaded_once(dev):
    gemm(dev, A, B)
    before = dev.live_counts()["kernels"]
    for _ in range(50):
        gemm(dev, A, B)
    assert dev.live_counts()["kernels"] == before
    assert dev.live_counts()["retired"] == 0


THIN = [
    (1, 300, 700), (300, 1, 700), (1, 1, 1000), (2, 77, 900), (77, 2, 900), (130, 3, 65),
    (50, 4, 64), (1, 5000, 9), (5000, 1, 9), (1, 17, 1), (17, 1, 1), (3, 3, 2000), (900, 1, 600),
]  # fmt: skip


@pytest.mark.unmeasured
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", THIN, ids=str)
def test_thin_matrices_in_every_layout(isa_dev, shape, dtype):
    m, n, k = shape
    rng = np.random.default_rng(m * 7 + n)
    bias = rng.standard_normal(n).astype(dtype)
    tag = "gemm_f32" if dtype == np.float32 else "gemm_f64"
    for _ in range(5):
        a, b = laid_out(rng, (m, k), dtype), laid_out(rng, (k, n), dtype)
        around = np.full((m + 1, n + 5), 99, dtype)
        out = around[:m, 2 : n + 2]
        gemm(isa_dev, a, b, out, bias=bias, activation="relu")
        plain = ref.gemm(a, b)
        # The scale is that of the terms: bias may cancel the product, relu leave next to nothing.
        rms = float(np.sqrt(np.mean(plain**2) + np.mean(bias**2)))
        agree(out, np.maximum(plain + bias, 0), ref.tolerance(tag, k=k), rms, str(a.strides))
        assert (around[:, :2] == 99).all()
        assert (around[:, n + 2 :] == 99).all()
        assert (around[m] == 99).all()


def test_special_values_in_thin_matrices(isa_dev):
    a = np.ones((1, 100), np.float32)
    b = np.ones((100, 40), np.float32)
    b[5, 3], b[6, 4], b[7, 5] = np.nan, np.inf, -np.inf
    a[0, 9] = 1e-40
    with np.errstate(invalid="ignore"):
        want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(gemm(isa_dev, a, b), want, rtol=1e-5)
    np.testing.assert_allclose(gemm(isa_dev, b.T, a.T), want.T, rtol=1e-5)
    assert np.isnan(gemm(isa_dev, a * 0, b)[0, [3, 4, 5]]).all()


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_the_same_bits_for_any_number_of_threads(monkeypatch, dev, threads):
    monkeypatch.setenv("SPARKLE_THREADS", threads)
    rng = np.random.default_rng(8)
    with sp.open("cpu") as other:
        for m, n, k in [
            (300, 310, 320),
            (1, 3000, 500),
            (3000, 1, 500),
            (700, 40, 600),
            (256,) * 3,
        ]:
            a = rng.standard_normal((m, k)).astype(np.float32)
            b = rng.standard_normal((k, n)).astype(np.float32)
            assert (gemm(dev, a, b) == gemm(other, a, b)).all()


def test_a_subclass_is_what_numpy_knows_of_it():
    class Liar(np.ndarray):
        shape = property(lambda self: (99, 99))

    class Kept(np.ndarray):
        pass

    rng = np.random.default_rng(3)
    a = rng.standard_normal((5, 7), np.float32).view(Liar)
    b, out = rng.standard_normal((7, 3), np.float32), np.zeros((5, 3), np.float32).view(Kept)
    with sp.open("cpu") as dev:
        assert gemm(dev, a, b, out=out) is out
    np.testing.assert_allclose(out, np.asarray(a) @ b, rtol=1e-5)


def test_an_operand_whose_copy_would_be_larger_than_the_memory():
    wide = np.broadcast_to(np.float32(1), (2, 2**32 - 1))
    with sp.open("cpu") as dev:
        if dev.info.memory_nbytes >= wide.nbytes:
            pytest.skip(f"a machine with less than {wide.nbytes >> 30} GiB of memory")
        with pytest.raises(sp.OutOfDeviceMemory, match="an operand, row-major"):
            gemm(dev, wide, np.broadcast_to(np.float32(1), (2**32 - 1, 2)))
