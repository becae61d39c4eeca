"""The short way of conv2d with numpy arrays: it does what the long one does, or nothing."""

import itertools
import struct
import threading
import warnings
import weakref

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.ops import constant, conv2d, ref
from sparkle_drv.ops.calls import shortcut
from sparkle_drv.ops.conv2d import fastpath

DEFAULTS = {
    "stride": 1,
    "padding": 0,
    "dilation": 1,
    "groups": 1,
    "activation": None,
    "layout": "NCHW",
    "algo": "auto",
}


@pytest.fixture
def dev():
    with sp.open("cpu") as device:
        yield device


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def readonly(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def shortly(dev, x, w, bias=None, out=None, **options):
    """What the table does with this call; None: nothing."""
    return dev.kept[fastpath.KEY](x, w, bias, out, *(DEFAULTS | options).values())


def slowly(monkeypatch, dev, *args, **options):
    """The same call without a table."""
    with monkeypatch.context() as patch:
        patch.setattr(fastpath, "remember", lambda *_: None)
        kept = dev.kept.pop(fastpath.KEY, None)
        made = conv2d(dev, *args, **options)
        if kept is not None:
            dev.kept[fastpath.KEY] = kept
        return made


def ready(dev, x=(2, 5, 9, 8), w=(7, 5, 3, 3), *, fixed=False, seed=1, **options):
    """x, w, bias and out that the table knows."""
    x, w, bias = normal(seed, *x), normal(seed + 1, *w), normal(seed + 2, w[0])
    w = constant(dev, w) if fixed else w
    out = conv2d(dev, x, w, bias, **options)
    for _ in range(2):
        conv2d(dev, x, w, bias, out, **options)
    return x, w, bias, out


CASES = [
    {},
    {"padding": 1, "activation": "relu"},
    {"padding": "same", "stride": 2, "activation": "tanh"},
    {"padding": ((1, 0), (2, 1)), "stride": (1, 2)},
    {"padding": "valid", "dilation": (1, 2), "activation": "sigmoid"},
    {"padding": 1, "layout": "NHWC"},
    {"padding": 1, "algo": "direct"},
    {"algo": "im2col"},
    {"algo": "naive"},
    {"padding": 1, "algo": "winograd"},
    {"padding": (1, 1), "algo": "winograd2", "layout": "NHWC"},
    {"padding": 1, "algo": "winograd", "stride": (2, 2)},
]


@pytest.mark.parametrize("options", CASES, ids=str)
@pytest.mark.parametrize("fixed", [False, True])
def test_it_is_taken_and_does_the_same(dev, monkeypatch, options, fixed):
    shape = (2, 9, 8, 5) if options.get("layout") == "NHWC" else (2, 5, 9, 8)
    x, w, bias, out = ready(dev, shape, fixed=fixed, **options)
    for given in (bias, None):
        want = slowly(monkeypatch, dev, x, w, given, **options)
        out[:] = np.nan
        assert shortly(dev, x, w, given, out, **options) is out
        np.testing.assert_array_equal(out, want)
        made = shortly(dev, x, w, given, **options)
        assert made.flags.owndata
        np.testing.assert_array_equal(made, want)
        np.testing.assert_array_equal(conv2d(dev, x, w, given, **options), want)


def test_lists_stand_for_tuples(dev):
    x, w, bias, out = ready(dev, padding=[[1, 0], (2, 1)], stride=[1, 2])
    for padding, stride in itertools.product(
        ([[1, 0], [2, 1]], ((1, 0), (2, 1))), ([1, 2], (1, 2))
    ):
        assert shortly(dev, x, w, bias, out, padding=padding, stride=stride) is out
    for padding in ([[1, 0], [2, 2]], [[1, 0]], [[1, 0], [2, 1], [0, 0]], [1, 0], "same", 1):
        assert shortly(dev, x, w, bias, out, padding=padding, stride=(1, 2)) is None


class Sub(np.ndarray):
    pass


def test_what_is_not_as_usual_is_left_alone(dev):
    x, w, bias, out = ready(dev, (2, 5, 8, 8), (5, 5, 3, 3), padding=1)
    unaligned = np.zeros(x.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(x.shape)
    cases = {
        "a list": (x.tolist(), w, bias, out),
        "another dtype": (x.astype(np.float64), w, bias, out),
        "w of another dtype": (x, w.astype(np.float64), bias, out),
        "bias of another dtype": (x, w, bias.astype(np.float64), out),
        "out of another dtype": (x, w, bias, out.astype(np.float64)),
        "other bytes": (x.astype(">f4"), w, bias, out),
        "a subclass": (x.view(Sub), w, bias, out),
        "masked": (np.ma.array(x), w, bias, out),
        "x by columns": (np.asfortranarray(x), w, bias, out),
        "w by columns": (x, np.asfortranarray(w), bias, out),
        "bias with gaps": (x, w, np.repeat(bias, 2)[::2], out),
        "x backwards": (x[..., ::-1], w, bias, out),
        "not aligned": (unaligned, w, bias, out),
        "three dimensions": (x[0], w, bias, out),
        "five": (x[None], w, bias, out),
        "another shape": (x[:1], w, bias, out[:1]),
        "empty": (x[:0], w, bias, out[:0]),
        "bias too short": (x, w, bias[:-1], out),
        "bias of two dimensions": (x, w, bias[None], out),
        "out's shape": (x, w, bias, out[:1]),
        "out by columns": (x, w, bias, np.asfortranarray(out)),
        "read-only out": (x, w, bias, readonly(out)),
        "x as out": (x, w, bias, x),
        "an Array": (dev.array(x), w, bias, None),
        "no w": (x, None, bias, out),
        "no x": (None, w, bias, out),
    }
    for what, args in cases.items():
        before = out.copy()
        assert shortly(dev, *args, padding=1) is None, what
        np.testing.assert_array_equal(out, before)
    assert shortly(dev, x, w, bias, out, padding=1) is out
    for options in (
        {"padding": True}, {"padding": 1.0}, {"padding": np.int64(1)}, {"padding": 0},
        {"padding": "1"}, {"stride": True}, {"groups": True}, {"activation": "relu"},
        {"layout": "NHWC"}, {"algo": "direct"}, {"algo": None},
        {"stride": 2}, {"dilation": 2}, {"groups": None},
    ):  # fmt: skip
        assert shortly(dev, x, w, bias, out, **{"padding": 1} | options) is None, options
    assert dev.kept[fastpath.KEY](x, w, bias, out) is None


def test_errors_are_the_same_when_a_call_is_known(dev):
    x, w, bias, out = ready(dev, padding=1)
    with pytest.raises(TypeError, match="out: a numpy array or an Array"):
        conv2d(dev, x, w, bias, [1], padding=1)
    with pytest.raises(ValueError, match="out: shape"):
        conv2d(dev, x, w, bias, out[:1], padding=1)
    with pytest.raises(ValueError, match="bias: shape"):
        conv2d(dev, x, w, bias[:-1], out, padding=1)
    with pytest.raises(TypeError, match="w: conv2d takes float32"):
        conv2d(dev, x, w.astype(np.float64), bias, out, padding=1)
    with pytest.raises(ValueError, match="w: shape"):
        conv2d(dev, x, w[:, :-1], bias, out, padding=1)
    with pytest.raises(ValueError, match="out: a writable array"):
        conv2d(dev, x, w, bias, readonly(out), padding=1)
    with pytest.raises(TypeError, match="stride: a whole number"):
        conv2d(dev, x, w, bias, out, padding=1, stride=True)
    with pytest.raises(TypeError, match="padding: a whole number"):
        conv2d(dev, x, w, bias, out, padding=1.0)
    with pytest.raises(ValueError, match="activation: "):
        conv2d(dev, x, w, bias, out, padding=1, activation="gelu")
    with pytest.raises(TypeError, match="algo: "):
        conv2d(dev, x, w, bias, out, padding=1, algo=["auto"])
    with pytest.raises(TypeError, match="dev: a Device"):
        conv2d(None, x, w, bias, out, padding=1)
    dev.close()
    with pytest.raises(sp.errors.DeviceLost):
        conv2d(dev, x, w, bias, out, padding=1)


@pytest.mark.parametrize("which", ["x", "w", "bias"])
def test_out_over_an_input_is_right(dev, monkeypatch, which):
    memory = np.zeros(4096, np.float32)
    sizes = {"x": (2, 4, 6, 6), "w": (4, 4, 3, 3), "bias": (4,)}
    ready(dev, sizes["x"], sizes["w"], padding=1)
    for shift in (0, 3, 287):
        given = {name: normal(7, *size) for name, size in sizes.items()}
        size = given[which].size
        over = memory[shift : shift + size].reshape(sizes[which])
        over[...] = given[which]
        want = slowly(monkeypatch, dev, *given.values(), padding=1)
        given[which] = over
        out = memory[:288].reshape(sizes["x"])
        if shift < 288:
            assert shortly(dev, *given.values(), out, padding=1) is None
        assert conv2d(dev, *given.values(), out, padding=1) is out
        np.testing.assert_array_equal(out, want)


def test_strides_set_in_place_are_noticed(dev):
    x, w = normal(1, 1, 16, 14, 14), normal(2, 16, 16, 3, 3)
    w.flags.writeable = False
    for _ in range(4):
        want = ref.conv2d(x, w, padding=[(1, 1)] * 2)
        for _ in range(4):
            found = conv2d(dev, x, w, padding=1)
            np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-3)
        with warnings.catch_warnings():  # NumPy 2.4 says that it will not always be possible
            warnings.simplefilter("ignore", DeprecationWarning)
            w.strides = (w.strides[1], w.strides[0], *w.strides[2:])


def test_many_weights_of_one_shape(dev):
    x = normal(1, 1, 4, 6, 6)
    held = [constant(dev, normal(i, 4, 4, 1, 1)) for i in range(30)]
    wanted = [ref.conv2d(x, w.numpy()) for w in held]
    for _ in range(4):
        for w, want in zip(held, wanted, strict=True):
            np.testing.assert_allclose(conv2d(dev, x, w), want, rtol=1e-4, atol=1e-4)
    assert all(shortly(dev, x, w) is not None for w in held)


def test_more_calls_than_places(dev):
    dev.kept[fastpath.KEY] = fastpath.table(dev, 1).call
    for _ in range(2):
        for h, c, stride in itertools.product(range(3, 7), (1, 2), (1, 2)):
            x, w = np.full((1, c, h, h), 2, np.float32), np.full((3, c, 1, 1), 0.5, np.float32)
            for _ in range(2):
                assert (conv2d(dev, x, w, stride=stride) == c).all()


def test_work_in_flight_comes_first(dev):
    x, w, bias, out = ready(dev, padding=1)
    want = out.copy()
    slow = sp.Commands().dispatch(dev.kernel("busy_u32"), dev.buffer(4), 100_000_000, groups=1)
    fence = dev.default_queue.submit(slow)
    out[:] = 0
    assert conv2d(dev, x, w, bias, out, padding=1) is out
    assert fence.done
    np.testing.assert_array_equal(out, want)


def test_a_closed_queue_and_a_new_one(dev):
    x, w, bias, out = ready(dev, fixed=True)
    want = out.copy()
    dev.default_queue.close()
    assert shortly(dev, x, w, bias, out) is None
    for _ in range(3):
        out[:] = 0
        np.testing.assert_array_equal(conv2d(dev, x, w, bias, out), want)
    assert shortly(dev, x, w, bias, out) is out


def test_a_closed_kernel_is_left_to_python(dev):
    x, w, bias, out = ready(dev, fixed=True)
    want = out.copy()
    for kernel in dev.kept["ops kernels"].values():
        kernel.close()
    assert shortly(dev, x, w, bias, out) is None
    np.testing.assert_array_equal(conv2d(dev, x, w, bias, out), want)


def test_threads(dev):
    wrong = []
    shared = constant(dev, normal(9, 6, 4, 3, 3))
    want_shared = {}
    for h in (5, 6):
        want_shared[h] = ref.conv2d(normal(h, 1, 4, h, h), shared.numpy())

    def work(seed):
        rng = np.random.default_rng(seed)
        for i in range(40):
            if i % 2:
                h = 5 + i // 2 % 2
                got, want = conv2d(dev, normal(h, 1, 4, h, h), shared), want_shared[h]
            else:
                h, c = (int(v) for v in rng.integers(1, 6, 2))
                x, w = normal(i, 1, c, h, h), normal(i + 1, 3, c, 1, 1)
                w.flags.writeable = bool(i % 4)
                out = np.empty((1, 3, h, h), np.float32)
                conv2d(dev, x, w, out=out)
                got, want = conv2d(dev, x, w, out=out), ref.conv2d(x, w)
            if not np.allclose(got, want, rtol=1e-4, atol=1e-4):
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_puts_that_cannot_be(dev):
    table = fastpath.table(dev, 4)
    kernel = dev.kernel("conv2d_f32")
    head = shortcut.head_of(kernel)
    other = shortcut.head_of(dev.kernel("gemm_f32"))
    shapes, scalars = struct.pack("=12q", *[1] * 12), struct.pack("=18I", *[1] * 18)
    plain, out = tuple(DEFAULTS.values()), (1, 1, 1, 1)
    good = (shapes, scalars, plain, out, kernel, head, None)
    assert table.put(*good) is True
    for i, wrong in [
        (0, shapes[:-1]), (1, scalars[:-1]), (2, plain[:-1]), (3, out[:-1]), (5, head[:-1]),
        (5, other), (6, 5), (6, weakref.ref(dev)),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match="put: "):
            table.put(*good[:i], wrong, *good[i + 1 :])
    for odd in ([1], 1.0, True, ((([1],),),), (((1,),),), np.int64(1)):
        assert table.put(*good[:2], (odd, *plain[1:]), *good[3:]) is False
    with pytest.raises(TypeError):
        table.put(*good[:4], None, *good[5:])
    for count in (0, 3, 1 << 20):
        with pytest.raises(ValueError, match="power of two"):
            fastpath.table(dev, count)
