"""The short way of gemm: it does what the long one does, and leaves everything else to it."""

import threading
import weakref

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.ops import gemm, ref
from sparkle_drv.ops.calls import shortcut
from sparkle_drv.ops.gemm import fastpath
from sparkle_drv.ops.memory import staging


@pytest.fixture
def dev():
    with sp.open("cpu") as device:
        yield device


def ready(dev, m=5, n=7, k=9, dtype=np.float32):
    """Operands of a shape that the table knows, and the table's `call`."""
    rng = np.random.default_rng(3)
    a = rng.standard_normal((m, k)).astype(dtype)
    b = rng.standard_normal((k, n)).astype(dtype)
    out = np.empty((m, n), dtype)
    gemm(dev, a, b, out)
    call = dev.kept[fastpath.KEY]
    return a, b, out, lambda *args, bias=None, act=0: call(*args, bias, act)


def close(got, a, b):
    np.testing.assert_allclose(got, ref.gemm(a, b), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_second_call_takes_it(dev, dtype):
    a, b, out, call = ready(dev, dtype=dtype)
    out[:] = 0
    assert call(a, b, out) is True
    close(out, a, b)


def test_each_layout_of_the_operands_has_a_plan_of_its_own(dev):
    a, b, out, call = ready(dev, 6, 40, 70)
    for x, y in ((a, np.asfortranarray(b)), (np.asfortranarray(a), b)):
        assert call(x, y, out) is False
        gemm(dev, x, y, out)
        out[:] = 0
        assert call(x, y, out) is True
        close(out, a, b)
    assert call(a, b, out) is True


@pytest.mark.parametrize("activation", [None, "relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bias_and_activation_go_the_same_way(dev, dtype, activation):
    a, b, out, call = ready(dev, dtype=dtype)
    for bias in (None, np.linspace(-1, 1, 7).astype(dtype)):
        want = gemm(dev, a, b, out.copy(), bias=bias, activation=activation, algo="blocked")
        out[:] = np.nan
        act = {None: 0, "relu": 1, "tanh": 2, "sigmoid": 3}[activation]
        assert call(a, b, out, bias=bias, act=act) is True
        np.testing.assert_array_equal(out, want)
        got = gemm(dev, a, b, bias=bias, activation=activation)
        np.testing.assert_array_equal(got, want)


def test_a_bias_that_is_not_as_usual_is_left_alone(dev):
    a, b, out, call = ready(dev)
    cases = {
        "a list": [1.0] * 7,
        "its length": np.ones(6, np.float32),
        "its dtype": np.ones(7),
        "its shape": np.ones((1, 7), np.float32),
        "strides": np.ones(14, np.float32)[::2],
        "of out": out[2],
    }
    for what, bias in cases.items():
        assert call(a, b, out, bias=bias) is False, what
    assert call(a, b, out, act=-1) is False
    assert call(a, b, out, act="relu") is False
    for absurd in (2**32, 2**80, -(2**80)):  # no activation's number, nor cut down to one
        assert call(a, b, out, act=absurd) is False
    out[2] = np.arange(7)  # read before it is written over
    want = ref.gemm(a, b) + np.arange(7)
    np.testing.assert_allclose(gemm(dev, a, b, out, bias=out[2]), want, rtol=1e-5, atol=1e-5)
    assert call(a, b, out, act=9) is False  # no such activation: refused by what checks records


def test_without_out_a_new_array_is_given(dev, monkeypatch):
    a, b, _out, _ = ready(dev)
    seen = []
    monkeypatch.setattr(staging, "device", seen.append)
    first, second = gemm(dev, a, b), gemm(dev, a, b)
    assert first is not second
    assert first.flags.owndata
    assert (first.shape, first.dtype, first.flags.c_contiguous) == ((5, 7), a.dtype, True)
    assert seen == []  # nobody took the long way
    close(first, a, b)
    close(second, a, b)


def test_strides_are_taken_as_they_are(dev):
    a, b, out, call = ready(dev)
    wide = np.zeros((5, 20), np.float32)
    ways = [
        (np.asfortranarray(a), b, out),
        (a, np.asfortranarray(b), out),
        (np.repeat(a, 2, 0)[::2], np.repeat(b, 3, 1)[:, ::3], wide[:, 3:10]),
    ]
    for x, y, z in ways:
        gemm(dev, x, y, z)
        z[...] = 0
        assert call(x, y, z) is True
        close(z, a, b)
    assert not wide[:, :3].any()
    assert not wide[:, 10:].any()


class Sub(np.ndarray):
    pass


def test_what_is_not_as_usual_is_left_alone(dev):
    a, b, out, call = ready(dev)
    square = np.ones((5, 5), np.float32)
    constant = out.copy()
    constant.flags.writeable = False
    unaligned = np.zeros(5 * 9 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(5, 9)
    cases = {
        "too few": (a, b),
        "a list": (a.tolist(), b, out),
        "another dtype": (a.astype(np.float64), b, out),
        "integers": (a.astype(np.int32), b, out),
        "other bytes": (a.astype(">f4"), b, out),
        "a subclass": (a.view(Sub), b, out),
        "masked": (np.ma.array(a), b, out),
        "negative strides": (a[::-1], b, out),
        "broadcast": (np.broadcast_to(a[:1], a.shape), b, out),
        "one dimension": (a[0], b, out),
        "three dimensions": (a[None], b, out),
        "shapes": (a, b[:-1], out),
        "out's shape": (a, b, out[:-1]),
        "no shape that it knows": (square, square, square.copy()),
        "read-only out": (a, b, constant),
        "out by columns": (a, b, np.asfortranarray(out)),
        "no b": (a, None, out),
        "not aligned": (unaligned, b, out),
        "empty": (a[:0], b, out[:0]),
    }
    for what, args in cases.items():
        assert call(*args) is False, what


@pytest.mark.parametrize("which", ["a", "b"])
def test_out_over_an_input_is_right(dev, which):
    for shape in ((6, 6), (300, 300)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        y = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
        want = ref.gemm(x, y)
        for _ in range(3):
            a, b = x.copy(), y.copy()
            out = a if which == "a" else b
            assert gemm(dev, a, b, out) is out
            np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)
        rows = np.empty((shape[0] + 2, shape[1]), np.float32)
        rows[:-2] = x
        gemm(dev, rows[:-2], y, rows[2:])
        np.testing.assert_allclose(rows[2:], want, rtol=1e-4, atol=1e-4)


def test_errors_are_the_same_after_a_shape_is_known(dev):
    a, b, out, _ = ready(dev)
    with pytest.raises(TypeError, match="out: a numpy array or an Array"):
        gemm(dev, a, b, [1])
    with pytest.raises(ValueError, match="out: shape"):
        gemm(dev, a, b, out[:-1])
    tall, wide = np.ones((10**6, 3), np.float32), np.ones((5, 10**6), np.float32)
    with pytest.raises(ValueError, match="b: shape"):
        gemm(dev, tall, wide)  # not for want of the memory of what cannot be
    with pytest.raises(TypeError, match="float32 or float64"):
        gemm(dev, tall.astype(np.int8), wide.T.astype(np.int8)[:3])
    with pytest.raises(TypeError, match="b: float32 is wanted"):
        gemm(dev, a, b.astype(np.float64), out)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out: a writable array"):
        gemm(dev, a, b, out)
    with pytest.raises(TypeError, match="dev: a Device"):
        gemm(None, a, b, out)
    dev.close()
    with pytest.raises(sp.errors.DeviceLost):
        gemm(dev, a, b, np.empty((5, 7), np.float32))


def test_special_values_pass(dev):
    for n in (4, 40):
        a = np.ones((n, n), np.float32)
        b = np.ones((n, n), np.float32)
        a[0, 0], a[1, 1], b[2, 2] = np.nan, np.inf, -np.inf
        a[3] = 1e-40  # denormal
        with np.errstate(invalid="ignore"):
            want = a.astype(np.float64) @ b.astype(np.float64)
        out = np.empty_like(a)
        for _ in range(3):
            gemm(dev, a, b, out)
            np.testing.assert_allclose(out, want, rtol=1e-5)


def test_work_in_flight_comes_first(dev):
    a, b, out, call = ready(dev)
    slow = sp.Commands().dispatch(dev.kernel("busy_u32"), dev.buffer(4), 30_000_000, groups=1)
    fence = dev.default_queue.submit(slow)
    out[:] = 0
    assert call(a, b, out) is True
    assert fence.done
    close(out, a, b)


def test_a_plan_does_not_wait(dev):
    a, b, out, _ = ready(dev)
    plan = gemm.plan(dev, 5, 7, 9)
    slow = sp.Commands().dispatch(dev.kernel("busy_u32"), dev.buffer(4), 30_000_000, groups=1)
    before = dev.default_queue.submit(slow)
    out[:] = 0
    fence = plan(a, b, out)
    assert fence.value > before.value
    fence.wait()
    close(out, a, b)
    out[:] = 0
    plan(a, b, out).wait()
    close(out, a, b)


def test_a_plan_has_its_activation(dev):
    a, b, out, _ = ready(dev)
    gemm.plan(dev, 5, 7, 9, activation="relu")(a, b, out).wait()
    np.testing.assert_allclose(out, np.maximum(ref.gemm(a, b), 0), rtol=1e-5, atol=1e-5)


def test_a_closed_queue_and_a_new_one(dev):
    a, b, out, call = ready(dev)
    dev.default_queue.close()
    assert call(a, b, out) is False
    for _ in range(3):
        out[:] = 0
        close(gemm(dev, a, b, out), a, b)
    assert dev.kept[fastpath.KEY](a, b, out, None, 0) is True


def test_more_shapes_than_places(dev):
    for m in range(1, 40):
        for n in range(1, 12):
            a, b = np.full((m, 3), 2, np.float32), np.full((3, n), 0.5, np.float32)
            out = np.empty((m, n), np.float32)
            for _ in range(2):
                out[:] = 0
                gemm(dev, a, b, out)
                assert (out == 3).all()


def test_threads(dev):
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for i in range(60):
            m, n, k = rng.integers(1, 60, 3) if i % 3 else (8, 8, 8)
            a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
            out = np.empty((m, n))
            gemm(dev, a, b, out)
            if not np.allclose(out, a @ b):
                wrong.append((m, n, k))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_puts_that_cannot_be(dev):
    table = fastpath.table(dev, 4)
    k = dev.kernel("gemm_f32")
    head = shortcut.head_of(k)
    for args in [
        (16, 1, 1, 1, 0, k, head),
        (0, 1, 1, 1, 0, k, head[:-1]),
        (0, 1, 1, 1, 0, k, shortcut.head_of(dev.kernel("conv2d_f32"))),
        (0, 1, 1, 1, 0, k, head, weakref.ref(dev)),
        (0, 1, 1, 1, 0, k, head, 5),
    ]:
        with pytest.raises(ValueError, match="put: "):
            table.put(*args)
    with pytest.raises(TypeError):
        table.put(0, 1, 1, 1, 0, None, head)
    for count in (0, 3, 1 << 20):
        with pytest.raises(ValueError, match="power of two"):
            fastpath.table(dev, count)
