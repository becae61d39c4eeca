"""Winograd convolution on every instruction set of the machine: all tiles, both strides, both
layouts, edges and bad input. The bits are the same however the work is cut.

When this fails, 3 x 3 convolutions on the cpu are wrong or inaccurate.
"""

import itertools
import os
import subprocess
import sys

import isas
import numpy as np
import pytest
from agree import agree_conv

import sparkle_drv as sp
from sparkle_drv.ops import constant, conv2d, ref
from sparkle_drv.ops.memory import weights
from sparkle_drv.ops.shapes.geometry import geometry
from sparkle_drv.ops.tiles import conv2d as tiles_conv2d
from sparkle_drv.types import TilePlan

pytestmark = pytest.mark.opens(*isas.HERE, threads=2)

ALGOS = {"winograd": 4, "winograd2": 2, "winograd6": 6}
STRIDES = (1, 2)
FORMS = [
    (algo, s) for algo, s in itertools.product(ALGOS, STRIDES) if (algo, s) != ("winograd6", 2)
]
MOST_ERROR = {1: 1e-4, 2: 1e-5}
"""Largest error over the output's rms that the benchmark shapes may have, by stride."""


def normal(rng, *shape):
    return rng.standard_normal(shape, np.float32)


def run(dev, x, w, bias=None, *, algo="winograd", stride=1, padding=1, layout="NCHW", act=0, **how):
    """One launch by a plan; how: pack, threads, mc (tiles of a group), nc (channels together)."""
    shape = geometry(x.shape, w.shape, stride, padding, 1, 1, layout)
    levels = ((how.get("mc", 0), how.get("nc", 0), 0), (0, 0, 0))
    plan = TilePlan(
        algo=algo, levels=levels, threads=how.get("threads", 1), pack=how.get("pack", 0)
    )
    given = w
    if plan.pack:
        pack = dev.kernel("pack_conv2d_f32", plan=plan)
        given = weights.blob(dev, pack, w, *shape.arguments()).buffer
    y = np.full(shape.out_shape, 7.0, np.float32)
    kernel = dev.kernel("conv2d_f32", plan=plan)
    dev.default_queue.launch(kernel, y, x, given, bias, *shape.arguments(), act).wait()
    return y


def want(x, w, bias=None, *, stride=1, padding=1, layout="NCHW", act=0):
    pads = padding if isinstance(padding, list) else [[padding, padding]] * 2
    activation = (None, "relu", "tanh", "sigmoid")[act]
    return ref.conv2d(
        x, w, bias, stride=(stride, stride), padding=pads, layout=layout, activation=activation
    )


def case(rng):
    padding = rng.integers(0, 4, (2, 2)).tolist()
    size = [
        max(1, 3 - sum(pads)) + int(rng.choice([0, 1, 2, 4, 6, 13, 17, 31, 60])) for pads in padding
    ]
    n, c, oc = (
        int(rng.choice(of)) for of in ([1, 1, 2, 3], [1, 3, 8, 16, 17, 40], [1, 4, 16, 31, 33, 65])
    )
    layout = str(rng.choice(["NCHW", "NHWC"]))
    x = (n, c, *size) if layout == "NCHW" else (n, *size, c)
    return x, (oc, c, 3, 3), {"padding": padding, "layout": layout, "act": int(rng.integers(4))}


@pytest.mark.parametrize(("algo", "stride"), FORMS)
def test_random_shapes(dev, algo, stride):
    rng = np.random.default_rng(31)
    for i in range(16):
        x_shape, w_shape, options = case(rng)
        x, w = normal(rng, *x_shape), normal(rng, *w_shape)
        bias = normal(rng, len(w)) if i % 2 else None
        how = {
            "algo": algo,
            "stride": stride,
            "pack": bool(rng.integers(2)),
            "threads": int(rng.integers(1, 3)),
            "mc": int(rng.choice([0, 0, 1, 5, 1000])),
            "nc": int(rng.choice([0, 0, 1, 40])),
        }
        got = run(dev, x, w, bias, **how, **options)
        what = f"{i}: {x_shape} {w_shape} {options} {how}"
        agree_conv(got, want(x, w, bias, stride=stride, **options), w[0].size, what, algo)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("shape", [(1, 40, 13, 18), (2, 17, 9, 40)], ids=str)
def test_the_same_bits_however_the_work_is_cut(dev, shape, layout):
    rng = np.random.default_rng(32)
    n, c, h, w = shape
    x = normal(rng, *((n, c, h, w) if layout == "NCHW" else (n, h, w, c)))
    filters, bias = normal(rng, 70, c, 3, 3), normal(rng, 70)
    ways = [  # each setting beside each of another, not all of all
        {"threads": threads, "pack": pack, "mc": mc, "nc": nc}
        for threads, pack, mc, nc in [
            (1, False, 0, 0),
            (2, False, 0, 0),
            (1, True, 3, 0),
            (2, True, 3, 0),
            (1, True, 0, 1000),
            (2, False, 3, 1000),
        ]
    ]
    for algo, stride in FORMS:
        form = {"stride": stride, "layout": layout, "act": 1}
        got = [run(dev, x, filters, bias, algo=algo, **form, **how) for how in ways]
        agree_conv(got[0], want(x, filters, bias, **form), 9 * c, algo=algo)
        for other in got[1:]:
            np.testing.assert_array_equal(other.view(np.uint32), got[0].view(np.uint32))


@pytest.mark.parametrize(("algo", "stride"), FORMS)
def test_error_of_a_layer(dev, algo, stride):
    rng = np.random.default_rng(33)
    x, w = normal(rng, 1, 128, 28, 28), normal(rng, 128, 128, 3, 3)
    wanted = want(x, w, stride=stride)
    error = np.abs(run(dev, x, w, algo=algo, stride=stride, threads=2) - wanted).max()
    assert error / wanted.std() <= MOST_ERROR[stride]
    agree_conv(run(dev, x, w, algo=algo, stride=stride), wanted, w[0].size, algo=algo)


@pytest.mark.parametrize("stride", STRIDES)
def test_from_the_operation(dev, stride):
    rng = np.random.default_rng(34)
    x, w, bias = normal(rng, 2, 20, 15, 21), normal(rng, 24, 20, 3, 3), normal(rng, 24)
    wanted = want(x, w, bias, stride=stride, act=1)
    fixed = constant(dev, w)
    form = {"stride": stride, "padding": 1, "activation": "relu"}
    algos = [algo for algo in ALGOS if (algo, stride) in FORMS]
    for algo, filters in itertools.product(algos, (w, fixed, fixed)):
        got = conv2d(dev, x, filters, bias, algo=algo, **form)
        agree_conv(got, wanted, w[0].size, algo=algo)
    for algo in algos:
        plan = conv2d.plan(dev, x.shape, w, bias, algo=algo, **form)
        assert plan.tile.algo == algo
        assert plan.tile.pack
        y = np.empty(plan.out_shape, np.float32)
        plan(x, y).wait()
        agree_conv(y, wanted, w[0].size, algo=algo)
    if dev.info.isa != "ref":
        w = normal(rng, 64, 64, 3, 3)
        plan = conv2d.plan(dev, (1, 64, 56, 56), w, stride=stride, padding=1)
        shape = geometry((1, 64, 56, 56), w.shape, stride, 1, 1, 1, "NCHW")
        # Which one depends on the machine's caches (tiles/test_tiles_winograd.py).
        assert plan.tile.algo == tiles_conv2d.conv2d(dev.info, shape).algo
        assert plan.tile.algo in algos


def test_weights_are_packed_for_each_stride(dev):
    """The same constant, used with one stride after the other."""
    rng = np.random.default_rng(40)
    x, w = normal(rng, 1, 20, 15, 21), normal(rng, 24, 20, 3, 3)
    fixed = constant(dev, w)
    for _, (algo, stride) in itertools.product(range(2), FORMS):
        got = conv2d(dev, x, fixed, stride=stride, padding=1, algo=algo)
        agree_conv(got, want(x, w, stride=stride), w[0].size, algo=algo)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("algo", "stride"), FORMS)
def test_tiny_images_and_huge_padding(dev, algo, layout, stride):
    rng = np.random.default_rng(35)
    w = normal(rng, 5, 2, 3, 3)
    form = {"layout": layout, "stride": stride}
    for h, width, padding in [(1, 1, 1), (1, 2, 2), (2, 1, 5), (3, 3, 0), (1, 1, 70), (2, 40, 9)]:
        x = normal(rng, *((1, 2, h, width) if layout == "NCHW" else (1, h, width, 2)))
        got = run(dev, x, w, algo=algo, padding=padding, **form)
        agree_conv(got, want(x, w, padding=padding, **form), 18, f"{h} x {width}, {padding}", algo)
    x = normal(rng, *((1, 2, 3, 3) if layout == "NCHW" else (1, 3, 3, 2)))
    far = run(dev, x, w, algo=algo, padding=[[1 << 17, 0], [0, 0]], **form)
    axis = 2 if layout == "NCHW" else 1
    assert far.shape[axis] > 1 << 17 >> (stride - 1)
    near = want(x, w, padding=[[4, 0], [0, 0]], **form)
    seen = near.shape[axis]
    agree_conv(np.take(far, np.arange(-seen, 0), axis), near, 18, algo=algo)
    # Exactly zero in tiles that see no pixel, to rounding in others.
    assert not np.take(far, np.arange(far.shape[axis] - 8), axis).any()


def test_memory_that_is_aligned_to_floats_only(dev):
    rng = np.random.default_rng(36)
    x, w, bias = normal(rng, 1, 17, 9, 19), normal(rng, 18, 17, 3, 3), normal(rng, 18)
    shifted = [np.empty(each.size + 1, np.float32)[1:] for each in (x, w, bias)]
    for to, of in zip(shifted, (x, w, bias), strict=True):
        to[:] = of.reshape(-1)
    x1, w1, bias1 = (to.reshape(of.shape) for to, of in zip(shifted, (x, w, bias), strict=True))
    for algo, stride in FORMS:
        got = run(dev, x1, w1, bias1, algo=algo, stride=stride)
        agree_conv(got, want(x, w, bias, stride=stride), 153, algo=algo)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("stride", STRIDES)
def test_what_is_not_finite_stays_in_the_tiles_that_see_it(dev, bad, layout, stride):
    rng = np.random.default_rng(37)
    x, w = normal(rng, 1, 3, 30, 41), normal(rng, 20, 3, 3, 3)
    x[0, 1, 13, 22] = bad
    wanted = want(x, w, stride=stride)
    # Output y sees pixels from stride * y - 1 to stride * y + 1.
    first, last = (
        [-((1 - at) // stride) for at in (13, 22)],
        [(at + 1) // stride for at in (13, 22)],
    )
    window = np.s_[..., first[0] : last[0] + 1, first[1] : last[1] + 1]
    assert not np.isfinite(wanted[window]).any()
    given = np.ascontiguousarray(np.moveaxis(x, 1, 3)) if layout == "NHWC" else x
    for algo, m in ALGOS.items():
        if (algo, stride) not in FORMS:
            continue
        got = run(dev, given, w, algo=algo, layout=layout, stride=stride)
        got = np.moveaxis(got, 3, 1) if layout == "NHWC" else got
        assert not np.isfinite(got[window]).any()
        # Tiles begin at multiples of m; what their outputs see, all of them may.
        rows, columns = (
            slice(a // m * m, b // m * m + m) for a, b in zip(first, last, strict=True)
        )
        seen = np.zeros(got.shape, bool)
        seen[..., rows, columns] = True
        agree_conv(np.where(seen, 0, got), np.where(seen, 0, wanted), 27, algo, algo)


def test_denormals_and_large_numbers(dev):
    rng = np.random.default_rng(38)
    x, w = normal(rng, 1, 8, 9, 9), normal(rng, 8, 8, 3, 3)
    for (algo, stride), large in itertools.product(FORMS, (False, True)):
        # The last transform of 6 x 6 outputs multiplies by up to 32 in either direction: products
        # that are sums of 1e36 would be infinite there, and what rounds below grows as much.
        six = algo == "winograd6"
        scale = (1e17 if six else 1e18) if large else 1e-20
        given = x * np.float32(scale), w * np.float32(scale)
        got = run(dev, *given, algo=algo, stride=stride) / scale / scale
        # What is below float32's smallest normal number rounds to its multiples.
        rounded = (4000 if six else 40) * 1.4e-45 / scale / scale
        assert np.abs(got - want(x, w, stride=stride)).max() <= 1e-4 + rounded


def test_geometry_that_does_not_fit_is_refused(dev):
    x = np.ones((1, 4, 9, 9), np.float32)
    y = np.zeros((1, 4, 9, 9), np.float32)
    arguments = geometry(x.shape, (4, 4, 3, 3), 1, 1, 1, 1, "NCHW").arguments()
    filters = np.ones((4, 4, 5, 5), np.float32)
    at = {"kh": 5, "kw": 6, "sh": 9, "sw": 10, "dw": 14, "groups": 15}
    wrongs = (
        {"kh": 5, "kw": 5}, {"sh": 2}, {"sw": 2}, {"sh": 3, "sw": 3}, {"dw": 2}, {"groups": 2},
    )  # fmt: skip
    for algo, wrong in itertools.product(ALGOS, wrongs):
        given = list(arguments)
        for name, value in wrong.items():
            given[at[name]] = value
        plan = TilePlan(algo=algo)
        run_it, pack = (dev.kernel(name, plan=plan) for name in ("conv2d_f32", "pack_conv2d_f32"))
        with pytest.raises((ValueError, sp.SparkleError)):
            dev.default_queue.launch(run_it, y, x, filters, None, *given, 0).wait()
        with pytest.raises((ValueError, sp.SparkleError)):
            weights.blob(dev, pack, filters, *given)
        with pytest.raises(ValueError, match="3 x 3"):
            conv2d(dev, x, filters, algo=algo)
        strides = [3, (1, 2), (2, 1), *((2,) if algo == "winograd6" else ())]
        wanted = "stride 1, dilation" if algo == "winograd6" else "stride 1 or 2, dilation"
        for stride in strides:
            with pytest.raises(ValueError, match=wanted):
                conv2d(dev, x, filters[..., :3, :3], stride=stride, algo=algo)


def test_a_blob_for_anything_else_is_refused(dev):
    rng = np.random.default_rng(39)
    x, w = normal(rng, 1, 4, 9, 9), normal(rng, 20, 4, 3, 3)
    shape = geometry(x.shape, w.shape, 1, 1, 1, 1, "NCHW")
    y = np.zeros(shape.out_shape, np.float32)
    plans = {algo: TilePlan(algo=algo, pack=True) for algo in (*ALGOS, "direct")}
    blobs = {
        algo: weights.blob(dev, dev.kernel("pack_conv2d_f32", plan=plan), w, *shape.arguments())
        for algo, plan in plans.items()
    }
    for algo, other in itertools.product(plans, plans):
        kernel = dev.kernel("conv2d_f32", plan=plans[algo])
        launch = (kernel, y, x, blobs[other].buffer, None, *shape.arguments(), 0)
        if algo == other:
            dev.default_queue.launch(*launch).wait()
            agree_conv(y, want(x, w), 36, algo=algo)
        else:
            with pytest.raises((ValueError, sp.SparkleError)):
                dev.default_queue.launch(*launch).wait()


def test_six_with_stride_2_is_refused_by_the_kernels(dev):
    """Not only by the operation: plans are anybody's."""
    x, w = np.ones((1, 4, 9, 9), np.float32), np.ones((4, 4, 3, 3), np.float32)
    shape = geometry(x.shape, w.shape, 2, 1, 1, 1, "NCHW")
    with pytest.raises((ValueError, sp.SparkleError)):
        run(dev, x, w, algo="winograd6", stride=2)
    pack = dev.kernel("pack_conv2d_f32", plan=TilePlan(algo="winograd6", pack=True))
    with pytest.raises((ValueError, sp.SparkleError)):
        weights.blob(dev, pack, w, *shape.arguments())
    assert (
        conv2d.plan(
            dev,
            (1, 64, 224, 224),
            normal(np.random.default_rng(42), 64, 64, 3, 3),
            stride=2,
            padding=1,
        ).tile.algo
        != "winograd6"
    )


@pytest.mark.parametrize("algo", [algo for algo, stride in FORMS if stride == 2])
def test_a_blob_for_another_stride_is_refused(dev, algo):
    """Its size is the same."""
    rng = np.random.default_rng(41)
    x, w = normal(rng, 1, 4, 9, 9), normal(rng, 20, 4, 3, 3)
    plan = TilePlan(algo=algo, pack=True)
    pack, kernel = (dev.kernel(name, plan=plan) for name in ("pack_conv2d_f32", "conv2d_f32"))
    shapes = {s: geometry(x.shape, w.shape, s, 1, 1, 1, "NCHW") for s in STRIDES}
    blobs = {s: weights.blob(dev, pack, w, *shapes[s].arguments()) for s in STRIDES}
    for stride, other in itertools.product(STRIDES, STRIDES):
        y = np.zeros(shapes[stride].out_shape, np.float32)
        launch = (kernel, y, x, blobs[other].buffer, None, *shapes[stride].arguments(), 0)
        if stride == other:
            dev.default_queue.launch(*launch).wait()
            agree_conv(y, want(x, w, stride=stride), 36, algo="winograd")
        else:
            with pytest.raises((ValueError, sp.SparkleError)):
                dev.default_queue.launch(*launch).wait()


NO_MEMORY = """
import resource
import numpy as np
import sparkle_drv as sp
x, w = np.ones((1, 1024, 4, 4), np.float32), np.ones((1024, 1024, 3, 3), np.float32)
with sp.open("cpu") as dev:
    sp.ops.conv2d(dev, x[:, :8], w[:8, :8].copy(), padding=1, algo="winograd")
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (96 << 20),) * 2)
    try:
        sp.ops.conv2d(dev, x, w, padding=1, algo="winograd")
    except (sp.OutOfDeviceMemory, MemoryError):
        print("refused")
    y = sp.ops.conv2d(dev, x, w, padding=1, algo="direct")
    print(y[0, 0, 1, 1])
"""


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="ASan lives on addresses")
def test_no_memory_for_transformed_weights():
    """144 MiB of them beside a limit of 96: an error, and the device works on."""
    ran = subprocess.run(
        [sys.executable, "-c", NO_MEMORY],
        env={**os.environ, "SPARKLE_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stdout.split() == ["refused", "9216.0"]
