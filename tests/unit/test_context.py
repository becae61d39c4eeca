"""init() and Context: devices opened together, calls handed to ops, everything closed together."""

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv import ops
from sparkle_drv.core import registry


def test_all_devices_are_opened_and_closed():
    with sp.init() as ctx:
        assert [d.uri for d in ctx.devices] == [i.uri for i in sp.devices()]
        assert ctx.device is ctx.devices[0]
        assert repr(ctx).startswith("<Context of ")
    assert all(d.closed for d in ctx.devices)
    ctx.close()


def test_devices_by_name_keep_their_order():
    with sp.init(["cpu", "cpu:0"]) as ctx:
        assert len(ctx.devices) == 2
        assert ctx.device is ctx.devices[0]
        assert ctx.devices[0] is not ctx.devices[1]


@pytest.mark.parametrize("wrong", ["cpu", "All", ""])
def test_one_uri_is_no_list(wrong):
    with pytest.raises(TypeError, match="'all' or a list"):
        sp.init(wrong)


def test_no_device_at_all(monkeypatch):
    with pytest.raises(sp.DeviceNotFound, match="discover"):
        sp.init([])
    monkeypatch.setattr(registry, "discover", list)
    with pytest.raises(sp.DeviceNotFound, match="no usable device"):
        sp.init()


def test_a_device_that_does_not_open_closes_those_that_did(monkeypatch):
    from sparkle_drv import context

    opened = []
    real = context.open_device
    monkeypatch.setattr(
        context, "open_device", lambda uri, **_: opened.append(real(uri)) or opened[-1]
    )
    with pytest.raises(sp.DeviceNotFound, match="quantum"):
        sp.init(["cpu", "quantum:0"])
    assert [d.closed for d in opened] == [True]


@pytest.fixture
def ctx():
    with sp.init(["cpu"]) as made:
        yield made


def test_arrays_on_a_device_of_choice(ctx):
    for device in ("auto", "cpu"):
        a = ctx.array((2, 3), np.float64, device=device, layout="NHWC")
        assert (a.shape, a.dtype, a.layout) == ((2, 3), np.float64, "NHWC")
        assert a.places == (ctx.device.uri,)
    with pytest.raises(ValueError, match="'cuda:0' is not one of cpu, nor 'auto'"):
        ctx.array(3, np.float32, device="cuda:0")


def test_calls_are_those_of_ops(ctx):
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 6, 6)).astype(np.float32)
    x = rng.standard_normal((1, 4, 5, 5)).astype(np.float32)
    w = rng.standard_normal((3, 4, 3, 3)).astype(np.float32)
    bias = rng.standard_normal(3).astype(np.float32)
    dev = ctx.device
    for got, want in (
        (ctx.gemm(a, b, activation="relu"), ops.gemm(dev, a, b, activation="relu")),
        (ctx.conv2d(x, w, bias, padding=1), ops.conv2d(dev, x, w, bias, padding=1)),
        (ctx.map("x*y + 1", a, b), ops.map(dev, "x*y + 1", a, b)),
        (ctx.map("s*x", x=a, s=2.0), ops.map(dev, "s*x", x=a, s=2.0)),
        (ctx.reduce(a, "max", 0), ops.reduce(dev, a, "max", 0)),
        (ctx.layout(x, "NHWC"), ops.layout(dev, x, "NHWC")),
    ):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_allclose(ctx.gemm(a, b), a @ b, rtol=1e-4, atol=1e-5)
    out = np.empty((6, 6), np.float32)
    assert ctx.gemm(a, b, out) is out


def test_arrays_of_others_are_told_as_such(ctx):
    a = ctx.array((4, 4), np.float32)
    with sp.init(["cpu"]) as another, sp.open("cpu") as dev:
        b = another.array((4, 4), np.float32)
        for call in (
            lambda: ctx.gemm(a, b),
            lambda: ctx.map("x + y", a, b),
            lambda: ctx.reduce(b, "mean"),
            lambda: ctx.gemm(a, a, out=b),
        ):
            with pytest.raises(ValueError, match=r"of this Context is wanted, .* is another's"):
                call()
        with pytest.raises(ValueError, match="got one of another opening of cpu"):
            ctx.gemm(a, dev.array(np.ones((4, 4), np.float32)))
        with pytest.raises(ValueError, match="another opening of cpu, this queue to cpu"):
            dev.default_queue.write(a.on("cpu"), np.ones((4, 4), np.float32))
        with pytest.raises(TypeError, match="got a ContextArray: operations of its Context"):
            ops.gemm(dev, a, a)
