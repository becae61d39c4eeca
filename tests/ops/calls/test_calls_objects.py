"""gemm, conv2d and their plans behave as ordinary Python objects, although C calls them.

When this fails, help(), copy and pickle of operations fail for users.
"""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest
from agree import agree

from sparkle_drv import ops
from sparkle_drv.ops.conv2d.operation import Conv2d, Conv2dPlan
from sparkle_drv.ops.gemm.operation import Gemm, GemmPlan

pytestmark = pytest.mark.opens(threads=1)

BOTH = pytest.mark.parametrize(("op", "kind"), [(ops.gemm, Gemm), (ops.conv2d, Conv2d)])
X = np.arange(16, dtype=np.float32).reshape(4, 4)
IMAGE, WEIGHTS = X.reshape(1, 1, 4, 4), np.ones((1, 1, 2, 2), np.float32)


@BOTH
def test_an_operation_is_seen_as_its_class_is_written(op, kind):
    assert isinstance(op, kind)
    assert type(op).__name__ == kind.__name__
    assert type(op).__module__ == kind.__module__
    assert op.__doc__ == kind.__doc__
    wanted = list(inspect.signature(kind.__call__).parameters.values())[1:]
    assert list(inspect.signature(op).parameters.values()) == wanted
    assert getattr(importlib.import_module(kind.__module__), kind.__name__) is kind


@BOTH
def test_an_operation_is_one_object_wherever_it_is_sent(op, kind):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(op, protocol)) is op
    assert copy.copy(op) is copy.deepcopy(op) is op


def test_by_position_and_by_keyword(dev, slowly):
    out, y = np.empty_like(X), np.empty((1, 1, 3, 3), np.float32)
    want = X @ X, ops.conv2d(dev, IMAGE, WEIGHTS)
    for _ in range(2):
        del slowly[:]
        for args, named in (
            ((dev, X, X, out), {}),
            ((dev, X, X), {"out": out}),
            ((dev, X), {"out": out, "b": X, "bias": None, "activation": None, "algo": "auto"}),
            ((dev,), {"b": X, "out": out, "a": X}),
            ((dev, X, X), {}),
            ((dev, X, X, None), {"algo": "".join(["au", "to"])}),
        ):
            agree(ops.gemm(*args, **named), want[0])
            agree(functools.partial(ops.gemm, *args)(**named), want[0])
        for args, named in (
            ((dev, IMAGE, WEIGHTS), {}),
            ((dev, IMAGE, WEIGHTS, None, y), {}),
            ((dev, IMAGE), {"w": WEIGHTS, "out": y, "stride": 1, "groups": 1, "padding": 0}),
            ((dev, IMAGE, WEIGHTS), {"layout": "NCHW", "activation": None, "bias": None}),
        ):
            agree(ops.conv2d(*args, **named), want[1])
    assert slowly == []


def fails(function, *args, **named):
    """The class and the words of what is raised."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        function(*args, **named)
    return caught.type, str(caught.value)


def test_misuse_is_told_in_the_words_of_the_class(dev):
    class Mine(type(ops.gemm)):
        pass

    ops.gemm(dev, X, X)
    for args, named in (
        ((), {}), ((dev,), {}), ((dev, X), {}), ((dev, X, X, X, None), {}), ((dev,) * 40, {}),
        ((dev, X, X), {"a": X}), ((dev, X, X), {"dev": dev}), ((dev, X, X), {"layout": "NHWC"}),
        ((dev, X, X), {f"n{i}": i for i in range(40)}), ((dev, X, X), {"activation": "selu"}),
        ((None, X, X), {}), ((X, dev, X), {}), ((dev, None, None), {}), ((dev, X, X, [0.0]), {}),
    ):  # fmt: skip
        want = fails(Gemm.__call__, ops.gemm, *args, **named)
        assert fails(ops.gemm, *args, **named) == want
        assert fails(Mine(), *args, **named) in (want, (TypeError, f"{Mine!r}: it is not begun"))
    ops.conv2d(dev, IMAGE, WEIGHTS)
    for args, named in (
        ((dev, IMAGE), {}), ((dev, IMAGE, WEIGHTS, None, None, 1), {}),
        ((dev, IMAGE, WEIGHTS), {"x": X}), ((dev, IMAGE, WEIGHTS), {"pad": 1}),
    ):  # fmt: skip
        want = fails(Conv2d.__call__, ops.conv2d, *args, **named)
        assert fails(ops.conv2d, *args, **named) == want
    with pytest.raises(TypeError):
        ops.gemm(**{"a": X, 5: X})


def test_subclasses_in_python(dev, slowly):
    class Counted(type(ops.gemm)):
        calls = 0

        def __call__(self, *args, **named):
            self.calls += 1
            return super().__call__(*args, **named)

    counted = Counted()
    counted._begin(Gemm.__call__, None, (("a", "b", "out"), 3, {"out": None}))
    own = Gemm()  # the class as it is written: by Python alone
    for op in (counted, own):
        for got in (op(dev, X, X), op(dev, X, X, out=X.copy()), op(dev, X, b=X)):
            agree(got, X @ X)
    assert counted.calls == 3


def test_plans_are_of_their_class(dev):
    made = ops.gemm.plan(dev, 4, 4, 4)
    out = np.empty_like(X)
    for plan, kind in ((made, GemmPlan), (ops.conv2d.plan(dev, IMAGE.shape, WEIGHTS), Conv2dPlan)):
        assert isinstance(plan, kind)
        assert (type(plan).__name__, type(plan).__doc__) == (kind.__name__, kind.__doc__)
        assert not hasattr(plan, "__dict__")
    for _ in range(2):
        out[:] = np.nan
        made(X, X, out).wait()
        agree(out, X @ X)
        made(a=X, b=X, out=out).wait()
    for args, named in (
        ((), {}), ((X, X, out, None, None), {}), ((X,) * 40, {}),
        ((X, X, out), {"out": out}), ((X, X), {"nothing": out}),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=r"Plan\.__call__\(\)"):
            made(*args, **named)


def test_plans_of_arrays_and_of_what_is_wrong(dev):
    plan, out = ops.conv2d.plan(dev, IMAGE.shape, WEIGHTS), np.empty((1, 1, 3, 3), np.float32)
    want = ops.conv2d(dev, IMAGE, WEIGHTS)
    x, y = dev.array(IMAGE), dev.empty(out.shape, np.float32)
    fixed = out.copy()
    fixed.flags.writeable = False
    for _ in range(2):
        for given in ((x, y), (IMAGE, out), (x, out), (IMAGE, y)):
            plan(*given).wait()
            agree(given[1] if given[1] is out else y.numpy(), want)
        for wrong in ((IMAGE[:, :, :3], out), (IMAGE, out[..., :2]), (IMAGE, fixed),
                      (IMAGE.astype("f8"), out), (IMAGE, None), (None, out)):  # fmt: skip
            with pytest.raises((TypeError, ValueError)):
                plan(*wrong)


SIGNATURE = """
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


def test_the_signature_of_the_class_is_all_that_says_what_a_call_means():
    done = subprocess.run(
        [sys.executable, "-c", SIGNATURE], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
