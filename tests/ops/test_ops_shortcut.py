"""gemm, conv2d and plans are called without a line of Python (native/hot/calls/op.c, plan.c).

And yet as any Python object: what C leaves alone is what the Python class says, word for word.
"""

from __future__ import annotations

import copy
import functools
import gc
import importlib
import inspect
import pickle
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv import _hot, ops
from sparkle_drv.ops.conv2d import fastpath as conv_calls
from sparkle_drv.ops.conv2d.operation import Conv2d, Conv2dPlan
from sparkle_drv.ops.gemm import fastpath as gemm_calls
from sparkle_drv.ops.gemm.operation import Gemm, GemmPlan

BOTH = [(ops.gemm, Gemm), (ops.conv2d, Conv2d)]


@pytest.fixture
def dev():
    with sp.open("cpu") as device:
        yield device


def operands(dev):
    """a, b and out of a product that the table knows."""
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((5, 9), np.float32), rng.standard_normal((9, 7), np.float32)
    ops.gemm(dev, a, b)
    return a, b, np.full((5, 7), np.nan, np.float32)


def images(dev):
    """x, w and y of a convolution that the table knows."""
    rng = np.random.default_rng(6)
    x, w = rng.standard_normal((1, 3, 6, 5), np.float32), rng.standard_normal((4, 3, 3, 3), "f4")
    return x, w, ops.conv2d(dev, x, w)


@pytest.mark.parametrize(("op", "kind"), BOTH)
def test_an_operation_is_seen_as_its_class_is_written(op, kind):
    assert isinstance(op, kind)
    assert type(op).__name__ == kind.__name__
    assert type(op).__module__ == kind.__module__
    assert op.__doc__ == kind.__doc__
    wanted = list(inspect.signature(kind.__call__).parameters.values())[1:]
    assert list(inspect.signature(op).parameters.values()) == wanted
    assert getattr(importlib.import_module(kind.__module__), kind.__name__) is kind


@pytest.mark.parametrize("op", [ops.gemm, ops.conv2d])
def test_an_operation_is_one_object_wherever_it_is_sent(op):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(op, protocol)) is op
    assert copy.copy(op) is copy.deepcopy(op) is op


def test_gemm_by_position_and_by_keyword(dev, slowly):
    a, b, out = operands(dev)
    bias = np.arange(7, dtype=np.float32)
    calls = [
        ((dev, a, b, out), {}),
        ((dev, a, b), {"out": out}),
        ((dev, a), {"out": out, "b": b, "bias": None, "activation": None, "algo": "auto"}),
        ((dev,), {"b": b, "out": out, "a": a}),
        ((dev, a, b), {}),
        ((dev, a, b, None), {}),
        ((dev, a, b, out), {"algo": "".join(["au", "to"])}),
    ]
    del slowly[:]
    for args, named in calls:
        out[:] = np.nan
        got = ops.gemm(*args, **named)
        assert got is out or "out" not in named
        np.testing.assert_allclose(got, a @ b, rtol=1e-5, atol=1e-5)
        again = functools.partial(ops.gemm, *args)(**named)
        np.testing.assert_array_equal(again, got)
    for name in ("relu", "".join(["re", "lu"])):
        got = ops.gemm(dev, a, b, bias=bias, activation=name)
        np.testing.assert_allclose(got, np.maximum(a @ b + bias, 0), rtol=1e-5, atol=1e-5)
    assert slowly == []


def test_conv2d_by_position_and_by_keyword(dev, slowly):
    x, w, want = images(dev)
    y, bias = np.empty_like(want), np.arange(4, dtype=np.float32)
    relu = ops.conv2d(dev, x, w, bias, activation="relu", padding=(1, 1))
    del slowly[:]
    for args, named in (
        ((dev, x, w), {}),
        ((dev, x, w, None, y), {}),
        ((dev, x), {"w": w, "out": y, "stride": 1, "dilation": 1, "groups": 1, "padding": 0}),
        ((dev, x, w), {"layout": "NCHW", "algo": "auto", "activation": None, "bias": None}),
    ):
        y[:] = np.nan
        np.testing.assert_array_equal(ops.conv2d(*args, **named), want)
    got = ops.conv2d(dev, x, w, padding=[1, 1], activation="relu", bias=bias)
    np.testing.assert_array_equal(got, relu)
    assert slowly == []


def fails(function, *args, **named):
    """The class and the words of what is raised."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        function(*args, **named)
    return caught.type, str(caught.value)


def test_misuse_is_told_in_the_words_of_the_class(dev):
    a, b, out = operands(dev)
    x, w, _ = images(dev)
    wrong = [
        ((), {}),
        ((dev,), {}),
        ((dev, a), {}),
        ((dev, a, b, out, None), {}),
        ((dev,) * 40, {}),
        ((dev, a, b), {"a": a}),
        ((dev, a, b), {"dev": dev}),
        ((dev, a, b), {"layout": "NHWC"}),
        ((dev, a, b), {f"n{i}": i for i in range(40)}),
        ((dev, a, b), {"activation": "selu"}),
        ((dev, a, b), {"activation": ["relu"]}),
        ((dev, a, b), {"activation": 1}),
        ((dev, a, b), {"algo": "fast"}),
        ((dev, a, b), {"algo": None}),
        ((dev, a, b, out[1:]), {}),
        ((dev, a, b, [0.0]), {}),
        ((None, a, b, out), {}),
        ((a, dev, b), {}),
        ((dev, a, b[1:]), {}),
        ((dev, None, None), {}),
    ]

    class Mine(type(ops.gemm)):
        pass

    for args, named in wrong:
        want = fails(Gemm.__call__, ops.gemm, *args, **named)
        assert fails(ops.gemm, *args, **named) == want
        assert fails(Mine(), *args, **named) == want
    for args, named in (
        ((dev, x), {}),
        ((dev, x, w, None, None, 1), {}),
        ((dev, x, w), {"x": x}),
        ((dev, x, w), {"stride": 0}),
        ((dev, x, w), {"pad": 1}),
        ((dev, x[:, :2], w), {}),
    ):
        want = fails(Conv2d.__call__, ops.conv2d, *args, **named)
        assert fails(ops.conv2d, *args, **named) == want
    with pytest.raises(TypeError):
        ops.gemm(**{"a": a, 5: b})


def test_new_results_of_every_size_and_type(dev, slowly):
    for dtype in (np.float32, np.float64):
        item = np.dtype(dtype).itemsize
        for m, n in ((1, 1), (1, (128 << 10) // item), ((128 << 10) // item - 1, 1), (181, 181)):
            a, b = np.full((m, 2), 3, dtype), np.full((2, n), 5, dtype)
            spread = np.repeat(b, 2, 1)[:, ::2]  # a layout has an entry of its own
            ops.gemm(dev, a, spread)
            del slowly[:]
            got = ops.gemm(dev, a, spread)
            assert (got.shape, got.dtype, got.flags.owndata) == ((m, n), dtype, True)
            assert got.flags.c_contiguous
            assert (got == 30).all()
            assert slowly == []
    a, b, _ = operands(dev)
    np.testing.assert_allclose(ops.gemm(dev, a[::-1], b), a[::-1] @ b, rtol=1e-5, atol=1e-5)
    with pytest.raises(TypeError, match="b: float32 is wanted"):
        ops.gemm(dev, a, b.astype("f8"))


def test_subclasses_in_python(dev, slowly):
    a, b, out = operands(dev)
    del slowly[:]

    class Counted(type(ops.gemm)):
        calls = 0

        def __call__(self, *args, **named):
            self.calls += 1
            return super().__call__(*args, **named)

    class Plain(type(ops.gemm)):
        pass

    counted, plain = Counted(), Plain()
    for op in (counted, plain):
        for got in (op(dev, a, b, out), op(dev, a, b, out=out), op(dev, a, b=b)):
            np.testing.assert_allclose(got, a @ b, rtol=1e-5, atol=1e-5)
    assert counted.calls == 3
    assert slowly == []
    own = Gemm()  # the class as it is written: the plain way, by Python alone
    np.testing.assert_array_equal(own(dev, a, b), ops.gemm(dev, a, b))
    assert len(slowly) == 1


def test_what_is_no_table_is_left_to_python(dev, slowly, monkeypatch):
    a, b, out = operands(dev)
    x, w, want = images(dev)
    call, other = dev.kept[gemm_calls.KEY], dev.kept[conv_calls.KEY]
    monkeypatch.setattr(gemm_calls, "remember", lambda *given: None)
    monkeypatch.setattr(conv_calls, "remember", lambda *given: None)
    del slowly[:]
    for odd in (5, [].append, print, None, call.__self__):
        dev.kept[gemm_calls.KEY] = dev.kept[conv_calls.KEY] = odd
        np.testing.assert_allclose(ops.gemm(dev, a, b, out), a @ b, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(ops.conv2d(dev, x, w), want)
    dev.kept[gemm_calls.KEY], dev.kept[conv_calls.KEY] = other, call
    np.testing.assert_allclose(ops.gemm(dev, a, b, out), a @ b, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(ops.conv2d(dev, x, w), want)
    dev.kept = None
    assert ops.gemm.__call__.__self__ is ops.gemm
    with pytest.raises(AttributeError):
        ops.gemm(dev, a, b, out)
    dev.kept = {}
    np.testing.assert_array_equal(ops.conv2d(dev, x, w), want)
    assert len(slowly) == 14


def test_nothing_is_kept_of_a_call(dev):
    a, b, out = operands(dev)
    x, w, y = images(dev)
    plan = ops.gemm.plan(dev, 5, 7, 9)
    things = [dev, a, b, out, x, w, y, plan, dev.default_queue, ops.gemm, ops.conv2d]

    class Mine(type(ops.gemm)):
        pass

    mine = Mine()

    def work():
        for _ in range(50):
            ops.gemm(dev, a, b, out)
            mine(dev, a, b, out=out, bias=None)
            ops.gemm(dev, a, b, out=out, activation="relu")
            ops.conv2d(dev, x, w, out=y)
            plan(a, b, out).wait()
            for wrong in (lambda: ops.gemm(dev, a, b, out, x), lambda: plan(a, b, None), mine):
                with pytest.raises((TypeError, ValueError)):
                    wrong()
            assert ops.gemm(dev, a, b) is not out

    work()
    gc.collect()
    before = [sys.getrefcount(thing) for thing in things]
    work()
    gc.collect()
    assert [sys.getrefcount(thing) for thing in things] == before


def test_a_device_that_is_kept_by_what_it_keeps_goes():
    device = sp.open("cpu")
    a, b, out = operands(device)
    plan = ops.gemm.plan(device, 5, 7, 9)
    device.kept["round"] = device, plan, plan(a, b, out)
    gone = weakref.ref(device)
    device.close()
    del device, plan
    gc.collect()
    assert gone() is None


def test_plans_are_of_their_class(dev):
    a, b, out = operands(dev)
    plan = ops.gemm.plan(dev, 5, 7, 9)
    x, w, y = images(dev)
    for made, kind in ((plan, GemmPlan), (ops.conv2d.plan(dev, x.shape, w), Conv2dPlan)):
        assert isinstance(made, kind)
        assert (type(made).__name__, type(made).__doc__) == (kind.__name__, kind.__doc__)
        assert not hasattr(made, "__dict__")
    plain = GemmPlan(dev, plan.kernel, plan.tile, (5, 7, 9), 0)
    for given in (plan, plain):
        out[:] = np.nan
        assert given(a, b, out).wait().queue is dev.default_queue
        np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-5)
        given(a=a, b=b, out=out).wait()
        for wrong in (
            lambda given=given: given(),
            lambda given=given: given(a, b, out, None, None),
            lambda given=given: given(*[a] * 40),
            lambda given=given: given(a, b, out, out=out),
            lambda given=given: given(a, b, nothing=out),
        ):
            with pytest.raises(TypeError, match=r"Plan\.__call__\(\)"):
                wrong()
    assert y.shape == (1, 4, 4, 3)


def test_fences_of_one_plan_in_many_threads(dev):
    a, b, _ = operands(dev)
    plan, wrong = ops.gemm.plan(dev, 5, 7, 9), []

    def work():
        out, last = np.empty((5, 7), np.float32), 0
        for _ in range(300):
            fence = plan(a, b, out)
            value = fence.value
            fence.wait()
            if fence.value != value or value <= last:
                wrong.append((last, value, fence.value))
            last = value

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_signature_of_the_class_is_all_that_says_what_a_call_means():
    code = """
import inspect

import numpy as np

OTHERS = {"Gemm": {"activation": "relu"}, "Conv2d": {"stride": 2, "padding": 1}}
look = inspect.signature

def signature(function, **how):
    # While the classes are new: as if they had been written with these defaults.
    kind, _, name = getattr(function, "__qualname__", "").partition(".")
    if name == "__call__" and kind in OTHERS:
        function.__kwdefaults__.update(OTHERS[kind])
    return look(function, **how)

inspect.signature = signature
import sparkle_drv as sp
from sparkle_drv import ops

a, b = np.full((2, 3), -1.0, np.float32), np.ones((3, 4), np.float32)
x, w = np.ones((1, 1, 6, 6), np.float32), np.ones((1, 1, 3, 3), np.float32)
with sp.open("cpu") as dev:
    for _ in range(3):
        assert (ops.gemm(dev, a, b) == 0).all()
        assert (ops.gemm(dev, a, b, activation=None) == -3).all()
        assert ops.conv2d(dev, x, w).shape == (1, 1, 3, 3)
        assert ops.conv2d(dev, x, w, stride=1, padding=0).shape == (1, 1, 4, 4)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


SIGNATURES = {
    "gemm": (("a", "b", "out", "bias", "activation", "algo"), 3, {}),
    "conv2d": (
        ("x", "w", "bias", "out", "stride", "padding", "dilation", "groups", "activation",
         "layout", "algo"), 4, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SIGNATURES)
def test_parameters_that_c_does_not_know(name):
    names, n, defaults = SIGNATURES[name]
    for odd in (
        (names[1::-1] + names[2:], n, defaults),  # another order
        (names[:-1], n, defaults),
        ((*names, "more"), n, defaults),
        ((*names[:-1], 5), n, defaults),
        ((), n, defaults),
        (names, -1, defaults),
        (names, len(names) + 1, defaults),
    ):
        with pytest.raises(ValueError, match=f"op: {name} has other parameters than C knows"):
            _hot.op(name, Gemm, "key", sp.Device, (None,) * 2, odd)


def test_classes_that_cannot_be_made(dev):
    for odd in (5, object, Gemm, dev):
        with pytest.raises(TypeError, match="direct: a class of plans is wanted"):
            _hot.direct(odd)
    for name, device in (("gemm", sp.Device), ("map", sp.Device), ("conv2d", object)):
        with pytest.raises(ValueError, match="op: "):
            _hot.op(name, Gemm, "key", device, (None,) * 2, SIGNATURES.get(name, ((), 0, {})))
    known = SIGNATURES["gemm"]
    for args in (
        (),
        ("gemm", 5, "key", sp.Device, (1,) * 2, known),
        ("gemm", Gemm, 5, sp.Device, (1,) * 2, known),
        ("gemm", Gemm, "key", sp.Device, (1,), known),
        ("gemm", Gemm, "key", sp.Device, (1,) * 2, (["a"], 1, {})),
        ("gemm", Gemm, "key", sp.Device, (1,) * 2, (("a",), 1, None)),
    ):
        with pytest.raises(TypeError):
            _hot.op(*args)
    with pytest.raises(TypeError):
        object.__new__(type(ops.gemm))
