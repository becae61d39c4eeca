"""ops.conv2d on the cpu: random shapes per instruction set, padding, layouts, bad input.

When this fails, conv2d on the cpu is wrong for some shape, padding or layout.
"""

import dataclasses

import numpy as np
import pytest
from agree import agree_conv

from sparkle_drv.ops import conv2d, ref

ACTIVATIONS = [None, None, "relu", "tanh", "sigmoid"]
ALGOS = ["auto", "auto", "direct", "im2col", "naive"]


def normal(rng, *shape):
    return rng.standard_normal(shape, np.float32)


def random_case(rng):
    groups = int(rng.choice([1, 1, 1, 2, 3, 5]))
    per_group, out_per_group = (int(v) for v in rng.choice([1, 1, 2, 3, 4, 7, 16, 17], 2))
    kernel = [int(v) for v in rng.choice([1, 1, 2, 3, 3, 5], 2)]
    dilation = [int(v) for v in rng.choice([1, 1, 1, 2, 3], 2)]
    padding = rng.integers(0, 4, (2, 2)).tolist()
    sizes = []
    for i in (0, 1):
        least = max(1, (kernel[i] - 1) * dilation[i] + 1 - sum(padding[i]))
        sizes.append(least + int(rng.choice([0, 1, 2, 5, 11, 30])))
    return {
        "x": (int(rng.choice([1, 1, 2, 3])), per_group * groups, *sizes),
        "w": (out_per_group * groups, per_group, *kernel),
        "stride": [int(v) for v in rng.choice([1, 1, 1, 2, 3], 2)],
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
        "layout": str(rng.choice(["NCHW", "NHWC"])),
        "activation": rng.choice(ACTIVATIONS),
    }


@pytest.mark.unmeasured
def test_random_shapes(isa_dev):
    rng = np.random.default_rng(11)
    for i in range(80):
        case = random_case(rng)
        options = {k: v for k, v in case.items() if k not in ("x", "w")}
        x, w = normal(rng, *case["x"]), normal(rng, *case["w"])
        bias = normal(rng, len(w)) if rng.integers(2) else None
        if case["layout"] == "NHWC":
            x = np.moveaxis(x, 1, 3)  # not contiguous, on purpose
        algo = str(rng.choice(ALGOS))
        got = conv2d(isa_dev, x, w, bias, algo=algo, **options)
        want = ref.conv2d(x, w, bias, **options)
        terms = w[0].size
        rms = 1.0 if case["activation"] in ("tanh", "sigmoid") else None
        agree_conv(got, want, terms, f"{i}: {algo} {case}", rms=rms)


@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((1, 64, 30, 31), (70, 64, 3, 3), {"padding": 1}),
        ((1, 96, 14, 14), (40, 96, 1, 1), {}),
        ((2, 64, 23, 23), (64, 1, 3, 3), {"padding": 1, "groups": 64, "stride": 2}),
        ((1, 3, 60, 61), (33, 3, 7, 7), {"stride": 2, "padding": 3}),
        ((70, 3, 9, 9), (5, 3, 3, 3), {}),
    ],
)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_layers_of_real_networks(isa_dev, x, w, options, layout):
    rng = np.random.default_rng(12)
    x, w = normal(rng, *x), normal(rng, *w)
    x = np.ascontiguousarray(np.moveaxis(x, 1, 3)) if layout == "NHWC" else x
    got = conv2d(
        isa_dev, x, w, layout=layout, algo="im2col" if w.shape[1] > 1 else "auto", **options
    )
    both = {k: (v, v) for k, v in options.items() if k == "stride"}
    pad = options.get("padding", 0)
    want = ref.conv2d(
        x,
        w,
        layout=layout,
        groups=options.get("groups", 1),
        padding=((pad, pad), (pad, pad)),
        **both,
    )
    agree_conv(got, want, w[0].size)


X, W = np.ones((2, 4, 7, 9), np.float32), np.ones((6, 4, 3, 2), np.float32)


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({}, (2, 6, 5, 8)),
        ({"padding": 2}, (2, 6, 9, 12)),
        ({"padding": (1, 0)}, (2, 6, 7, 8)),
        ({"padding": [1, 2]}, (2, 6, 7, 12)),
        ({"padding": ((1, 0), (0, 3))}, (2, 6, 6, 11)),
        ({"padding": "valid", "stride": (2, 3)}, (2, 6, 3, 3)),
        ({"padding": "same"}, (2, 6, 7, 9)),
        ({"padding": "same", "stride": 2}, (2, 6, 4, 5)),
        ({"padding": "same", "stride": (1, 4), "dilation": (2, 1)}, (2, 6, 7, 3)),
        ({"dilation": (3, np.int64(4))}, (2, 6, 1, 5)),
    ],
)
def test_sizes(dev, options, shape):
    assert conv2d(dev, X, W, **options).shape == shape


def test_same_padding_puts_the_odd_rest_at_the_bottom_and_right(dev):
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    w = np.zeros((1, 1, 2, 2), np.float32)
    w[..., 0, 0] = 1
    np.testing.assert_array_equal(conv2d(dev, x, w, padding="same"), x)
    # Stride 2 over 4 with a window of 3: one row of padding is enough, and it is the last.
    w = np.zeros((1, 1, 3, 3), np.float32)
    w[..., 0, 0] = 1
    assert conv2d(dev, x, w, padding="same", stride=2).ravel().tolist() == [0, 2, 8, 10]


def test_empty_batch_and_no_output_channels(dev):
    assert conv2d(dev, X[:0], W).shape == (0, 6, 5, 8)
    assert conv2d(dev, X, W[:0]).shape == (2, 0, 5, 8)
    assert conv2d(dev, dev.array(X[:0]), W).shape == (0, 6, 5, 8)


@pytest.mark.parametrize(
    "algo", ["direct", "im2col", "naive", "winograd", "winograd2", "winograd6"]
)
def test_nothing_at_all_by_any_algorithm(dev, algo):
    x, w = np.ones((2, 3, 5, 6), np.float32), np.ones((4, 3, 3, 3), np.float32)
    assert conv2d(dev, x[:0], w, algo=algo).shape == (0, 4, 3, 4)
    assert conv2d(dev, x, w[:0], algo=algo).shape == (2, 0, 3, 4)


@pytest.mark.unmeasured
@pytest.mark.parametrize(("algo", "groups"), [("auto", 1), ("direct", 1), ("direct", 2)])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("stride", [(1, 1), (1, 2), (3, 2)])
def test_padding_below_and_to_the_right_alone(isa_dev, groups, stride, layout, algo):
    """1x1: the first output is of the first pixel, and the last ones of none.

    Scratch is full of NaN before.
    """
    rng = np.random.default_rng(3)
    full = np.full((2, 40, 24, 24), np.nan, np.float32)
    for step in (1, 2):
        conv2d(isa_dev, full, normal(rng, 40, 40, 1, 1), stride=step, algo="direct")
    for c, oc in ((17, 8), (32, 40)):
        w = normal(rng, oc * groups, c, 1, 1)
        for h, width in ((1, 5), (7, 33)):
            for below, right in ((3, 1), (40, 0), (0, 70)):
                x = normal(rng, 2, c * groups, h, width)
                options = {
                    "stride": stride, "padding": ((0, below), (0, right)), "groups": groups,
                }  # fmt: skip
                want = ref.conv2d(x, w, **options)
                x, want = (
                    np.ascontiguousarray(v.transpose(0, 2, 3, 1)) if layout == "NHWC" else v
                    for v in (x, want)
                )
                got = conv2d(isa_dev, x, w, layout=layout, algo=algo, **options)
                agree_conv(got, want, c, f"{c} {oc} {h} {width} {options}")


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_arrays_carry_their_layout(dev, layout):
    rng = np.random.default_rng(13)
    x, w = normal(rng, 2, 7, 9, 4), normal(rng, 6, 7 if layout == "NCHW" else 4, 3, 3)
    want = ref.conv2d(x, w, layout=layout)
    made = conv2d(dev, dev.array(x, layout=layout), dev.array(w), layout=layout)
    assert made.layout == layout
    assert made.fence.wait().done
    agree_conv(made.numpy(), want, w[0].size)
    out = dev.empty(want.shape, np.float32)
    assert conv2d(dev, dev.array(x), w, out=out, layout=layout) is out
    assert out.layout == layout
    np.testing.assert_array_equal(out.numpy(), made.numpy())
    other = "NHWC" if layout == "NCHW" else "NCHW"
    with pytest.raises(ValueError, match=f"layout: expected '{layout}', which is the layout of x"):
        conv2d(dev, dev.array(x, layout=layout), w, layout=other)
    with pytest.raises(ValueError, match=f"out: expected layout {layout}, got {other}"):
        conv2d(dev, x, w, out=dev.empty(want.shape, np.float32, other), layout=layout)


def test_operands_in_any_memory_and_out_over_an_input(dev):
    rng = np.random.default_rng(14)
    x = np.asfortranarray(normal(rng, 2, 4, 8, 8))
    w = normal(rng, 4, 8, 3, 3)[:, ::-2]
    bias = normal(rng, 8)[::-2]
    want = ref.conv2d(x, w, bias, padding=((1, 1), (1, 1)))
    agree_conv(conv2d(dev, x, w, bias, padding=1), want, 36)
    plain = x.copy(order="C")
    assert conv2d(dev, plain, w, bias, plain, padding=1) is plain
    agree_conv(plain, want, 36)
    held = dev.array(x)
    assert conv2d(dev, held, w, bias, held, padding=1) is held
    agree_conv(held.numpy(), want, 36)
    apart = np.empty((2, 4, 8, 16), np.float32)[..., ::2]
    assert conv2d(dev, x, w, bias, apart, padding=1) is apart
    agree_conv(apart, want, 36)


def test_memory_that_is_not_shared_with_the_host(dev, monkeypatch):
    rng = np.random.default_rng(15)
    x, w = normal(rng, 1, 4, 8, 8), normal(rng, 4, 4, 3, 3)
    monkeypatch.setattr(dev._backend, "info", dataclasses.replace(dev.info, unified=False))
    agree_conv(conv2d(dev, x, w), ref.conv2d(x, w), 36)
    agree_conv(conv2d(dev, dev.array(x), w).numpy(), ref.conv2d(x, w), 36)


def test_a_call_again_sees_what_has_changed(dev):
    """Calls with the same shapes take a short way, which must see all that the long one sees."""
    rng = np.random.default_rng(17)
    x, w, bias = normal(rng, 1, 4, 9, 9), normal(rng, 6, 4, 3, 3), normal(rng, 6)
    out = np.empty((1, 6, 9, 9), np.float32)
    both = ((1, 1), (1, 1))
    for step in range(4):
        assert conv2d(dev, x, w, bias, out, padding=1) is out
        agree_conv(out, ref.conv2d(x, w, bias, padding=both), 36, f"writeable {step}")
        w += 1  # in place
        bias -= 1
    w.flags.writeable = False
    for step in range(4):
        conv2d(dev, x, w, None, out, padding=1, activation="relu")
        want = ref.conv2d(x, w, padding=both, activation="relu")
        agree_conv(out, want, 36, f"read-only {step}")
        x += 1
    w.flags.writeable = True
    w *= -2
    conv2d(dev, x, w, None, out, padding=1)
    agree_conv(out, ref.conv2d(x, w, padding=both), 144, "writeable again")
    turned = np.asfortranarray(x)
    conv2d(dev, turned, w, None, out, padding=1)
    agree_conv(out, ref.conv2d(x, w, padding=both), 144, "not contiguous")
    square = normal(rng, 4, 4, 3, 3)
    for _ in range(3):
        plain = x.copy()
        assert conv2d(dev, plain, square, None, plain, padding=1) is plain
        agree_conv(plain, ref.conv2d(x, square, padding=both), 36, "over the input")
    for wrong in ({"padding": 1.0}, {"padding": True}, {"padding": 1, "activation": ["relu"]}):
        with pytest.raises((TypeError, ValueError)):
            conv2d(dev, x, w, None, out, **wrong)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out: expected a writable array"):
        conv2d(dev, x, w, None, out, padding=1)


def test_the_plan(dev):
    rng = np.random.default_rng(16)
    x, w, bias = normal(rng, 2, 6, 10, 11), normal(rng, 8, 3, 3, 3), normal(rng, 8)
    options = {"stride": (2, 1), "groups": 2, "activation": "relu"}
    want = ref.conv2d(x, w, bias, padding=((1, 1), (1, 1)), **options)
    plan = conv2d.plan(dev, x.shape, w, bias, padding=1, **options)
    w[:] = np.nan  # the plan has its own copy
    assert plan.out_shape == want.shape
    out = np.empty(plan.out_shape, np.float32)
    assert plan(x, out).wait().done
    agree_conv(out, want, 27)
    held = dev.array(x), dev.empty(plan.out_shape, np.float32)
    go = plan.bind(*held)
    for _ in range(3):
        plan.queue.fence(go()).wait()
    agree_conv(held[1].numpy(), want, 27)
    with pytest.raises(ValueError, match="conv2d_f32: argument x"):
        plan(x[:1], out)
    with pytest.raises(ValueError, match="x_shape: expected 1 or more images and output channels"):
        conv2d.plan(dev, (0, 6, 10, 11), w, groups=2)
    with pytest.raises(TypeError, match="x_shape: expected a whole number"):
        conv2d.plan(dev, (1.5, 6, 10, 11), w, groups=2)
    with pytest.raises(TypeError, match="x_shape: expected four whole numbers, got 5"):
        conv2d.plan(dev, 5, w, groups=2)


@pytest.mark.parametrize(
    ("x", "w", "options", "error", "match"),
    [
        ([[1.0]], W, {}, TypeError, "x: expected a numpy array or an Array, got list"),
        (X, None, {}, TypeError, "w: expected a numpy array or an Array, got NoneType"),
        (X.astype("f8"), W, {}, TypeError, "x: conv2d takes float32, got float64"),
        (X, W.astype("f8"), {}, TypeError, "w: conv2d takes float32, got float64"),
        (X, W, {"bias": np.ones(6)}, TypeError, "bias: conv2d takes float32, got float64"),
        (X, W, {"bias": np.ones(4, "f4")}, ValueError, r"bias: expected shape \(6,\) for the 6"),
        (X[0], W, {}, ValueError, r"x: expected 4 dimensions \(n, c, h, w\), got shape"),
        (X[0], W, {"layout": "NHWC"}, ValueError, r"x: expected 4 dimensions \(n, h, w, c\)"),
        (X, W[0], {}, ValueError, r"w: expected 4 dimensions \(oc, c/groups, kh, kw\)"),
        (X[:, :3], W, {}, ValueError, r"w: expected shape \(6, 3, 3, 2\) for 3 channels"),
        (X, W, {"layout": "NHWC"}, ValueError, r"w: expected shape \(6, 9, 3, 2\)"),
        (X, W, {"layout": "NCHW8c"}, ValueError, "layout: expected 'NCHW' or 'NHWC'"),
        (X, W, {"layout": 3}, TypeError, "layout: expected 'NCHW' or 'NHWC', got 3"),
        (X, W, {"groups": 3}, ValueError, "groups: 3 does not divide both c = 4 and oc = 6"),
        (X, W, {"groups": 2}, ValueError, r"w: expected shape \(6, 2, 3, 2\) .* 2 group"),
        (X, W, {"groups": 0}, ValueError, "groups: expected 1 or more, got 0"),
        (X, W, {"stride": 0}, ValueError, "stride: expected 1 or more, got 0"),
        (X, W, {"stride": (1, 2, 3)}, ValueError, "stride: expected one number or two"),
        (X, W, {"stride": 1.0}, TypeError, r"stride: expected a whole number, got 1\.0"),
        (X, W, {"stride": "2"}, TypeError, "stride: expected a whole number, got '2'"),
        (X, W, {"dilation": -1}, ValueError, "dilation: expected 1 or more, got -1"),
        (X, W, {"padding": -1}, ValueError, "padding: expected 0 or more, got -1"),
        (X, W, {"padding": True}, TypeError, "padding: expected a whole number, got True"),
        (X, W, {"padding": "full"}, ValueError, "padding: expected 'same' or 'valid'"),
        (
            X,
            W,
            {"padding": ((1, 1), 1)},
            ValueError,
            r"padding: expected \(\(top, bottom\), \(left, right",
        ),
        (X, W, {"padding": ((1, 1),)}, ValueError, r"padding: expected \(\(top, bottom\)"),
        (X, W, {"padding": 2**31}, ValueError, "padding: expected at most"),
        (X, W, {"dilation": 2**31}, ValueError, "dilation: expected at most"),
        (
            X[:, :, :2],
            W,
            {},
            ValueError,
            "x: the output would have no height: 2 pixels and 0 of padding",
        ),
        (X, W, {"dilation": (1, 9)}, ValueError, "no width: 9 .* less than the 10 that w spans"),
        (X[:0, :, :2], W, {}, ValueError, "x: the output would have no height"),
        (X[:, :0], W[:, :0], {}, ValueError, "x: expected 1 or more in all dim"),
        (X[..., :0], W, {"padding": 3}, ValueError, "x: expected 1 or more in all dim"),
        (X, W[..., :0], {}, ValueError, "w: expected 1 or more in all dim"),
        (X, W, {"activation": "elu"}, ValueError, "activation: expected .*, got 'elu'"),
        (
            X,
            W,
            {"algo": "fft"},
            ValueError,
            "algo: expected 'auto', 'naive', 'direct', 'im2col', 'winogr",
        ),
        (
            X,
            W,
            {"algo": "winograd"},
            ValueError,
            r"algo: 'winograd' needs .* got filters of \(3, 2\)",
        ),
        (X, W, {"algo": "winograd2"}, ValueError, r"algo: 'winograd2' needs filters of 3 x 3"),
        (
            X,
            W,
            {"out": np.ones((2, 6, 5, 7), "f4")},
            ValueError,
            r"out: expected shape \(2, 6, 5, 8\)",
        ),
        (X, W, {"out": np.ones((2, 6, 5, 8))}, TypeError, "out: expected float32"),
    ],
)
def test_bad_input(dev, x, w, options, error, match):
    before = dev.default_queue.submitted
    with pytest.raises(error, match=match):
        conv2d(dev, x, w, **options)
    assert dev.default_queue.submitted == before


def test_sizes_beyond_the_kernel_are_refused(dev):
    wide = np.broadcast_to(np.float32(1), (1, 1, 1, 2**31))
    with pytest.raises(ValueError, match=r"x or w: expected at most 2\*\*31 - 1"):
        conv2d(dev, wide, np.ones((1, 1, 1, 1), np.float32))
