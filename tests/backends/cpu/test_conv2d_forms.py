"""Every direct convolution of the cpu, on every instruction set, against the reference. Weights are
plain and packed, images have edges, and padding meets infinities.

When this fails, conv2d on the cpu is wrong at edges, or on one instruction set only.
"""

import itertools

import isas
import numpy as np
import pytest
from agree import agree_conv

import sparkle_drv as sp
from sparkle_drv.ops import ref
from sparkle_drv.ops.memory import weights
from sparkle_drv.ops.shapes.geometry import geometry
from sparkle_drv.types import TilePlan

pytestmark = pytest.mark.opens(*isas.HERE)

PIXELS, STRIPS = (2, 1, 1), (1, 2, 1)  # mr > nr, mr < nr


def run(
    dev, x, w, bias=None, *, form=PIXELS, pack=False, act=0, terms=0, pixels=0, out=None, **options
):
    given = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "layout": "NCHW", **options}
    shape = geometry(x.shape, w.shape, *given.values())
    plan = TilePlan(algo="direct", levels=((0, pixels, terms), form), pack=pack)
    y = np.full(shape.out_shape, 7.0, np.float32) if out is None else out
    source = w
    if pack:
        source = weights.blob(dev, dev.kernel("pack_conv2d_f32", plan=plan), w, *shape.arguments())
        source = source.buffer
    kernel = dev.kernel("conv2d_f32", plan=plan)
    dev.default_queue.launch(kernel, y, x, source, bias, *shape.arguments(), act).wait()
    return y


def want(x, w, bias=None, *, act=0, **options):
    pairs = {k: (v, v) for k, v in options.items() if k in ("stride", "dilation")}
    pad = options.get("padding", 0)
    same = {k: v for k, v in options.items() if k in ("groups", "layout")}
    activation = (None, "relu", "tanh", "sigmoid")[act]
    return ref.conv2d(
        x, w, bias, padding=((pad, pad), (pad, pad)), activation=activation, **pairs, **same
    )


def normal(rng, *shape):
    return rng.standard_normal(shape, np.float32)


def case(rng):
    kernel, dilation = int(rng.choice([1, 1, 2, 3, 3, 5, 7])), int(rng.choice([1, 1, 1, 2]))
    pad, groups = int(rng.integers(0, 4)), int(rng.choice([1, 1, 1, 2, 4]))
    reach = (kernel - 1) * dilation + 1
    size = max(1, reach - 2 * pad) + int(rng.choice([0, 1, 4, 6, 13, 17, 31, 54]))
    per_group, out = int(rng.choice([1, 2, 3, 16, 33])), int(rng.choice([1, 2, 5, 14, 16, 24, 65]))
    options = {
        "stride": int(rng.choice([1, 1, 2, 3])),
        "padding": pad,
        "dilation": dilation,
        "groups": groups,
        "layout": str(rng.choice(["NCHW", "NHWC"])),
        "act": int(rng.choice([0, 0, 1, 2, 3])),
    }
    n = int(rng.choice([1, 1, 2]))
    c = per_group * groups
    x = (n, c, size, size + 1) if options["layout"] == "NCHW" else (n, size, size + 1, c)
    return x, (out * groups, per_group, kernel, kernel), options


@pytest.mark.parametrize("form", [PIXELS, STRIPS], ids=["pixels", "strips"])
def test_random_shapes(dev, form):
    rng = np.random.default_rng(21)
    for i in range(25):
        x_shape, w_shape, options = case(rng)
        x, w = normal(rng, *x_shape), normal(rng, *w_shape)
        bias = normal(rng, len(w)) if i % 2 else None
        how = {"form": form, "pack": bool(rng.integers(2)), "terms": int(rng.choice([0, 0, 1, 40]))}
        got = run(dev, x, w, bias, **how, **options)
        agree_conv(
            got, want(x, w, bias, **options), w[0].size, f"{i}: {x_shape} {w_shape} {options} {how}"
        )


LAYERS = [
    ((1, 3, 57, 57), (40, 3, 7, 7), 2, 3, 1),
    ((1, 20, 28, 28), (33, 20, 1, 1), 1, 0, 1),
    ((2, 20, 14, 14), (64, 20, 3, 3), 1, 1, 1),
    ((2, 20, 7, 7), (36, 20, 3, 3), 1, 1, 1),
    ((1, 20, 14, 14), (36, 20, 1, 1), 2, 0, 1),
    ((1, 8, 30, 30), (8, 1, 3, 3), 1, 1, 8),
    ((1, 8, 31, 31), (8, 1, 3, 3), 2, 1, 8),
    ((1, 8, 14, 15), (8, 1, 5, 5), 1, 2, 8),
    ((1, 3, 150, 151), (3, 1, 3, 3), 1, 1, 3),  # several runs of rows, each of several bands
    ((2, 3, 150, 149), (3, 1, 3, 3), 2, 1, 3),
    ((1, 2, 5000, 3), (2, 1, 3, 3), 1, 1, 2),  # rows that are stored beyond their ends
    ((1, 8, 9, 9), (16, 1, 3, 3), 1, 1, 8),
    ((1, 8, 6, 300), (8, 2, 3, 3), 1, 1, 4),
]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: f"{layer[0]}{layer[1]}s{layer[2]}")
def test_layers(dev, layer):
    x_shape, w_shape, stride, padding, groups = layer
    rng = np.random.default_rng(22)
    x, w = normal(rng, *x_shape), normal(rng, *w_shape)
    bias = normal(rng, len(w))
    options = {"stride": stride, "padding": padding, "groups": groups, "act": 1}
    wanted = want(x, w, bias, **options)
    channels_last = np.ascontiguousarray(np.moveaxis(x, 1, 3))
    for form, pack in itertools.product((PIXELS, STRIPS), (False, True)):
        got = run(dev, x, w, bias, form=form, pack=pack, **options)
        agree_conv(got, wanted, w[0].size)
        got = run(dev, channels_last, w, bias, form=form, pack=pack, layout="NHWC", **options)
        agree_conv(np.moveaxis(got, 3, 1), wanted, w[0].size)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_depthwise_of_every_width(dev, stride, padding):
    """Rows shorter than a vector, of whole vectors and of a few columns more; nothing beside y."""
    rng = np.random.default_rng(30)
    for width, height in zip(range(1, 41), itertools.cycle(range(1, 10))):
        if min(width, height) + 2 * padding < 3:
            continue
        x, w = normal(rng, 2, 2, height, width), normal(rng, 2, 1, 3, 3)
        bias = normal(rng, 2) if width % 2 else None
        options = {"stride": stride, "padding": padding, "groups": 2, "act": width % 4}
        if width % 5 == 0:
            x[1, 0, height // 2, width - 1] = np.nan
            x[0, 1, 0, 0], w[1, 0, 2, 2] = np.inf, -np.inf
        with np.errstate(invalid="ignore"):
            wanted = want(x, w, bias, **options)
        around = np.full(wanted.size + 64, 7.0, np.float32)
        out = around[32:-32].reshape(wanted.shape)
        agree_conv(run(dev, x, w, bias, out=out, **options), wanted, 9, f"{height}x{width}")
        assert (around[:32] == 7).all()
        assert (around[-32:] == 7).all()


# x, w, options, (pixels, terms) of the plan: strips that are read from panels.
PANELS = [
    ((1, 20, 9, 21), (13, 20, 1, 1), {}, (0, 0)),  # a narrow last panel
    ((2, 40, 12, 12), (30, 40, 1, 1), {}, (32, 7)),  # several stretches of some terms each
    ((2, 17, 13, 13), (5, 17, 1, 1), {"stride": 2}, (16, 0)),
    ((1, 36, 23, 11), (14, 18, 3, 3), {"stride": 2, "padding": 1, "groups": 2}, (64, 50)),
    ((1, 18, 8, 40), (7, 18, 2, 5), {"stride": 3, "padding": 2, "dilation": 2}, (0, 100)),
    ((3, 17, 5, 1), (6, 17, 3, 1), {"padding": 1}, (0, 0)),  # rows of a few pixels
    ((1, 17, 1, 5), (6, 17, 1, 1), {"stride": 3, "padding": 1}, (0, 0)),  # rows of padding
    ((1, 17, 3, 2), (6, 17, 1, 1), {"stride": 3}, (0, 0)),  # one pixel
    # x in place of panels (avx512), which end in 5 pixels, in 4, in a vector, in more.
    ((2, 33, 11, 15), (20, 33, 1, 1), {}, (0, 0)),
    ((2, 33, 11, 15), (20, 33, 1, 1), {}, (64, 7)),
    ((3, 20, 14, 14), (15, 20, 1, 1), {}, (0, 9)),
    ((2, 18, 6, 8), (15, 18, 1, 1), {}, (32, 0)),
    ((1, 40, 9, 35), (30, 20, 1, 1), {"groups": 2}, (0, 12)),
    # Not in place: too many output channels, channels 2 KiB apart, a plane smaller than a vector.
    ((2, 18, 6, 11), (290, 18, 1, 1), {}, (0, 0)),
    ((2, 40, 16, 32), (13, 40, 1, 1), {}, (96, 0)),
    ((3, 20, 3, 4), (13, 20, 1, 1), {}, (0, 0)),
    # Every other pixel: pieces of all lengths in panels, an odd width and an even one.
    ((2, 17, 9, 71), (15, 17, 1, 1), {"stride": 2}, (0, 0)),
    ((1, 34, 8, 50), (14, 17, 1, 1), {"stride": 2, "groups": 2}, (64, 7)),
    ((1, 17, 57, 5), (3, 17, 1, 1), {"stride": 2}, (32, 0)),
]


@pytest.mark.parametrize("layer", PANELS, ids=lambda layer: f"{layer[0]}{layer[1]}")
def test_panels(dev, layer):
    x_shape, w_shape, options, (pixels, terms) = layer
    rng = np.random.default_rng(29)
    x, w, bias = normal(rng, *x_shape), normal(rng, *w_shape), normal(rng, w_shape[0])
    for act, pack in ((0, False), (1, True), (2, False)):
        got = run(
            dev, x, w, bias, form=STRIPS, act=act, pack=pack, pixels=pixels, terms=terms, **options
        )
        agree_conv(got, want(x, w, bias, act=act, **options), w[0].size)


def test_tiles_of_pixels_that_take_turns_with_the_weights(dev):
    # One block of output channels, some channels of x at a time: more tiles than take turns, at the
    # edges too, with every activation.
    rng = np.random.default_rng(30)
    for x_shape, w_shape, stride in (
        ((2, 12, 23, 23), (20, 12, 3, 3), 2),
        ((3, 21, 7, 7), (16, 21, 3, 3), 1),
        ((2, 9, 5, 60), (9, 9, 1, 1), 1),
    ):
        x, w, bias = normal(rng, *x_shape), normal(rng, *w_shape), normal(rng, w_shape[0])
        channels_last = np.ascontiguousarray(np.moveaxis(x, 1, 3))
        for act in range(4):
            options = {"stride": stride, "padding": w_shape[2] // 2, "act": act}
            wanted = want(x, w, bias, **options)
            agree_conv(run(dev, x, w, bias, terms=5 * w[0, 0].size, **options), wanted, w[0].size)
            options["layout"] = "NHWC"
            got = run(dev, channels_last, w, bias, terms=2 * w[0, 0].size, **options)
            agree_conv(np.moveaxis(got, 3, 1), wanted, w[0].size)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("groups", [1, 4])
def test_padding_is_zeros_even_to_weights_that_are_not_finite(dev, bad, layout, groups):
    rng = np.random.default_rng(23)
    x = normal(rng, 1, 4, 9, 20) if layout == "NCHW" else normal(rng, 1, 9, 20, 4)
    w = normal(rng, 8 if groups == 1 else 4, 4 // groups, 3, 3)
    w[1, 0, 0, 2] = bad
    options = {"padding": 2, "groups": groups, "layout": layout}
    with np.errstate(invalid="ignore"):
        wanted = want(x, w, **options)
    assert np.isnan(wanted).any()
    for form, pack in itertools.product((PIXELS, STRIPS), (False, True)):
        agree_conv(run(dev, x, w, form=form, pack=pack, **options), wanted, w[0].size)
    kernel = dev.kernel("conv2d_f32", plan=TilePlan(algo="naive"))
    shape = geometry(x.shape, w.shape, 1, 2, 1, groups, layout)
    y = np.empty(shape.out_shape, np.float32)
    dev.default_queue.launch(kernel, y, x, w, None, *shape.arguments(), 0).wait()
    agree_conv(y, wanted, w[0].size)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_what_is_not_finite_in_x_goes_where_it_is_seen(dev, bad):
    rng = np.random.default_rng(24)
    x, w = normal(rng, 1, 3, 12, 40), normal(rng, 20, 3, 3, 3)
    x[0, 1, 5, 17] = bad
    wanted = want(x, w, padding=1)
    for form in (PIXELS, STRIPS):
        agree_conv(run(dev, x, w, padding=1, form=form), wanted, 27)
    x, w = normal(rng, 1, 20, 12, 40), normal(rng, 20, 20, 3, 3)
    x[0, 1, 5, 17] = x[0, 19, 11, 39] = bad
    agree_conv(run(dev, x, w, padding=1, form=STRIPS), want(x, w, padding=1), 180)


def test_padding_beyond_the_image_and_huge_dilation(dev):
    rng = np.random.default_rng(25)
    x, w = normal(rng, 1, 2, 3, 4), normal(rng, 3, 2, 3, 3)
    deep, depth = normal(rng, 1, 4, 3, 4), normal(rng, 4, 1, 3, 3)
    for form in (PIXELS, STRIPS):
        for padding in (3, 9, 40):
            agree_conv(run(dev, x, w, padding=padding, form=form), want(x, w, padding=padding), 18)
            got = run(dev, deep, depth, padding=padding, groups=4, form=form)
            agree_conv(got, want(deep, depth, padding=padding, groups=4), 9)
        far = {"padding": (0, 1 << 22), "dilation": (1, 1 << 22)}
        # The middle column of taps is all that meets the image.
        wanted = want(x, np.ascontiguousarray(w[..., 1:2]))
        agree_conv(run(dev, x, w, form=form, **far), wanted, 18)


def test_a_blob_for_anything_else_is_refused(dev):
    rng = np.random.default_rng(26)
    x, w = normal(rng, 1, 4, 9, 20), normal(rng, 20, 4, 3, 3)
    shape = geometry(x.shape, w.shape, 1, 1, 1, 1, "NCHW")
    plans = {f: TilePlan(algo="direct", levels=((0, 0, 0), f), pack=True) for f in (PIXELS, STRIPS)}
    blobs = {
        form: weights.blob(dev, dev.kernel("pack_conv2d_f32", plan=plan), w, *shape.arguments())
        for form, plan in plans.items()
    }
    y = np.zeros(shape.out_shape, np.float32)

    def launch(form, buffer, arguments=None):
        kernel = dev.kernel("conv2d_f32", plan=plans[form])
        given = arguments or shape.arguments()
        return dev.default_queue.launch(kernel, y, x, buffer, None, *given, 0).wait()

    launch(PIXELS, blobs[PIXELS].buffer)
    agree_conv(y, want(x, w, padding=1), 36)
    other = dev.array(np.zeros(1 << 16, np.float32))
    turned = geometry((1, 9, 20, 4), w.shape, 1, 1, 1, 1, "NHWC").arguments()
    for form, buffer, arguments in (
        (STRIPS, blobs[PIXELS].buffer, None),
        (PIXELS, blobs[STRIPS].buffer, None),
        (PIXELS, blobs[PIXELS].buffer, turned),
        (PIXELS, other.buffer, None),
    ):
        with pytest.raises((ValueError, sp.SparkleError)):
            launch(form, buffer, arguments)


def test_any_number_of_threads_gives_the_same_bits(monkeypatch):
    found = {}
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("SPARKLE_THREADS", threads)
        with sp.open("cpu") as device:
            for i, (x_shape, w_shape, stride, padding, groups) in enumerate(LAYERS):
                rng = np.random.default_rng(28 + i)
                x, w = normal(rng, *x_shape), normal(rng, *w_shape)
                options = {"stride": stride, "padding": padding, "groups": groups}
                for form in (PIXELS, STRIPS):
                    got = run(device, x, w, form=form, **options)
                    first = found.setdefault((i, form), got)
                    np.testing.assert_array_equal(got, first, err_msg=f"{x_shape} {threads}")
