"""init() and Context: devices opened together, calls handed to ops, everything closed together.

When this fails, `sp.init` leaves devices open, or opens others than were asked for.
"""

import copy
import os
import pickle
import signal

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
    with sp.init(["egl:0", "cpu"]) as ctx:
        assert [d.uri for d in ctx.devices] == ["egl:0", "cpu"]
        assert ctx.device is ctx.devices[0]


@pytest.mark.parametrize("uris", [["cpu", "cpu"], ["cpu", "egl:0", "cpu:0"], ["egl:0", "egl"]])
def test_a_device_is_there_once_whatever_it_is_called(uris, monkeypatch):
    from sparkle_drv import context

    opened = []
    real = context.open_device
    monkeypatch.setattr(
        context, "open_device", lambda uri, **_: opened.append(real(uri)) or opened[-1]
    )
    with pytest.raises(ValueError, match=f"devices: expected each device once, got '{uris[-1]}'"):
        sp.init(uris)
    assert all(d.closed for d in opened)


@pytest.mark.parametrize("wrong", ["cpu", "All", ""])
def test_one_uri_is_no_list(wrong):
    with pytest.raises(TypeError, match="'all' or a list"):
        sp.init(wrong)


def test_no_device_at_all(monkeypatch):
    for empty in ([], ()):
        with pytest.raises(ValueError, match="an empty one"):
            sp.init(empty)
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
        a = ctx.array((2, 3, 3, 1), np.float64, device=device, layout="NHWC")
        assert (a.shape, a.dtype, a.layout) == ((2, 3, 3, 1), np.float64, "NHWC")
        assert a.places == (ctx.device.uri,)
    with pytest.raises(ValueError, match="expected one of cpu or 'auto', got 'cuda:0'"):
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
            with pytest.raises(
                ValueError, match=r"ContextArray of this Context, got .* of another"
            ):
                call()
        with pytest.raises(ValueError, match="got one of another opening of cpu"):
            ctx.gemm(a, dev.array(np.ones((4, 4), np.float32)))
        with pytest.raises(ValueError, match="another opening of cpu, this queue to cpu"):
            dev.default_queue.write(a.on("cpu"), np.ones((4, 4), np.float32))
        with pytest.raises(TypeError, match="got a ContextArray: operations of its Context"):
            ops.gemm(dev, a, a)


def used():
    """A Context, and what can be asked of it and its arrays, each asked once."""
    made = sp.init(["cpu"], profile=False)
    a = np.ones((8, 8), np.float32)
    x = made.array((8, 8), np.float32)
    with made.graph() as g:
        y = g.map("x * 2", x=a)
    calls = {
        "gemm": lambda: made.gemm(a, a),
        "gemm of arrays": lambda: made.gemm(x, x),
        "conv2d": lambda: made.conv2d(a[None, None], a[None, None]),
        "map": lambda: made.map("x * 2", a),
        "reduce": lambda: made.reduce(x),
        "layout": lambda: made.layout(a[None, None], "NHWC"),
        "array": lambda: made.array(3, np.float32),
        "graph": made.graph,
        "run": g.run,
        "trace": lambda: made.trace("t").__enter__(),
        "with": made.__enter__,
        "numpy": x.numpy,
        "asarray": lambda: np.asarray(x),
        "fill": lambda: x.fill(1),
        "on": lambda: x.on("cpu"),
        "node": lambda: y.numpy(),
    }
    for name, call in calls.items():
        if name != "trace":
            call()
    return made, calls


def told(calls):
    """What each of them raises, as text."""
    found = {}
    for name, call in calls.items():
        try:
            call()
            found[name] = "nothing"
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


def test_a_closed_context_says_so_whatever_is_asked():
    made, calls = used()
    made.close()
    said = "DeviceLost: cpu: the Context is closed"
    assert told(calls) == dict.fromkeys(calls, said)
    made.close()


def test_a_child_is_told_that_nothing_here_is_its_own():
    made, calls = used()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(20)
        try:
            os.write(write, pickle.dumps(told(calls)))
            made.close()
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        found = pickle.loads(file.read())
    os.waitpid(child, 0)
    assert {text.split(":")[0] for text in found.values()} == {"DeviceLost"}
    assert len(set(found.values())) == 1
    made.close()


@pytest.mark.parametrize(
    ("timeout_s", "error"), [("a", TypeError), (None, TypeError), (-1, ValueError),
                             (float("nan"), ValueError)],
)  # fmt: skip
def test_times_that_are_none(timeout_s, error):
    with sp.init(["cpu"], profile=False) as made, sp.open("cpu") as dev:
        for thing in (made, dev):
            with pytest.raises(error, match="timeout_s: "):
                thing.close(timeout_s)
        assert made.array(1, np.float32).numpy() == 0


def test_switches_are_bools(ctx):
    for given in ("no", 1, None):
        with pytest.raises(TypeError, match="profile: expected True or False"):
            sp.init(["cpu"], profile=given)
        with pytest.raises(TypeError, match="fuse: expected True or False"):
            ctx.graph(fuse=given)


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_an_array_is_not_copied_with_its_memory(ctx, how):
    with pytest.raises(TypeError, match=r"cannot be copied or pickled: use x\.numpy"):
        how(ctx.array(3, np.float32))


def test_what_is_no_device_of_this_context(ctx):
    a = np.ones(3, np.float32)
    with pytest.raises(TypeError, match=r"devices: expected a list of URIs, .* by position"):
        ctx.map("devices + 1", devices=a)
    np.testing.assert_array_equal(ctx.map("devices + out", a, a), 2 * a)
    with pytest.raises(TypeError, match="devices: expected a URI as text, got 5"):
        ctx.map("x + 1", x=a, devices=[5])
    with pytest.raises(ValueError, match=r"devices: expected one of cpu, got 'auto'$"):
        ctx.map("x + 1", x=a, devices=["auto"])
    with pytest.raises(ValueError, match="devices: expected each device once, got cpu, cpu"):
        ctx.graph(devices=["cpu", "cpu"])
    for given in (5, None, ["cpu"]):
        with pytest.raises(TypeError, match="device: expected a URI as str"):
            ctx.array(3, np.float32).on(given)
        with pytest.raises(TypeError, match="device: expected a URI as text"):
            ctx.array(3, np.float32, device=given)
    with pytest.raises(ValueError, match="expected one of cpu, which has a copy, got 'nope'"):
        ctx.array(3, np.float32).wrote("nope")
