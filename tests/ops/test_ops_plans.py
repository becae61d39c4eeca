"""Plans take the short way (native/hot/calls/plan.c) where they can, and Python's otherwise."""

import threading

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv import _hot
from sparkle_drv.ops import conv2d, gemm, ref

PADDED = ((1, 1), (1, 1))


@pytest.fixture
def dev():
    with sp.open("cpu") as device:
        yield device


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def agree(y, want):
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4)


@pytest.fixture
def by_python(monkeypatch):
    """The calls that were left to Python."""
    calls = []
    for kind in (conv2d.plan.__globals__["Conv2dPlan"], gemm.plan.__globals__["GemmPlan"]):

        def note(self, *operands, slowly=kind._call, **named):
            calls.append(operands)
            return slowly(self, *operands, **named)

        monkeypatch.setattr(kind, "_call", note)
    return calls


@pytest.mark.parametrize(
    ("w_shape", "groups", "biased"),
    [((7, 6, 3, 3), 1, True), ((8, 3, 1, 1), 2, False), ((6, 1, 3, 3), 6, True)],
)
def test_a_planned_convolution(dev, by_python, w_shape, groups, biased):
    x, w = normal(1, 2, 6, 9, 8), normal(2, *w_shape)
    bias = normal(3, w_shape[0]) if biased else None
    padding = w_shape[2] // 2
    plan = conv2d.plan(dev, x.shape, w, bias, padding=padding, groups=groups, activation="relu")
    want = ref.conv2d(
        x, w, bias, padding=((padding,) * 2,) * 2, groups=groups, activation="relu"
    )  # fmt: skip
    w[:] = 0
    out = np.full(plan.out_shape, np.nan, np.float32)
    fence = plan(x, out)
    assert type(fence) is sp.Fence
    assert fence.queue is plan.queue
    assert fence.wait() is fence
    agree(out, want)
    assert by_python == []


def test_what_is_not_as_usual_is_left_to_python(dev, by_python):
    x, w = normal(1, 1, 4, 6, 6), normal(2, 5, 4, 3, 3)
    plan = conv2d.plan(dev, x.shape, w, padding=1)
    want = ref.conv2d(x, w, padding=PADDED)
    out = np.zeros(plan.out_shape, np.float32)
    held = dev.array(x), dev.empty(plan.out_shape, np.float32)
    plan(*held).wait()
    agree(held[1].numpy(), want)
    plan(x=x, out=out).wait()
    agree(out, want)
    readonly = out.copy()
    readonly.flags.writeable = False
    for wrong in ((x[:, :3], out), (x, out[:, :4]), (x, readonly), (x, None), (None, out)):
        with pytest.raises((TypeError, ValueError)):
            plan(*wrong)
    for wrong in ((), (x,), (x, out, out), (x,) * 5):
        with pytest.raises(TypeError, match="argument"):
            plan(*wrong)
    assert len(by_python) == 11


def test_a_busy_queue(dev, by_python):
    x, w = normal(1, 1, 4, 6, 6), normal(2, 5, 4, 3, 3)
    plan = conv2d.plan(dev, x.shape, w, padding=1)
    out = np.zeros(plan.out_shape, np.float32)
    slow = sp.Commands().dispatch(dev.kernel("busy_u32"), dev.buffer(4), 30_000_000, groups=1)
    before = dev.default_queue.submit(slow)
    fence = plan(x, out)
    assert fence.value > before.value
    given = [x, out]
    del x, out  # the plan keeps them until then
    fence.wait()
    agree(given[1], ref.conv2d(given[0], w, padding=PADDED))
    assert len(by_python) == 1


def test_closed_weights_and_a_closed_device(by_python):
    x, w = normal(1, 1, 4, 6, 6), normal(2, 5, 4, 3, 3)
    with sp.open("cpu") as dev:
        plan, biased = (conv2d.plan(dev, x.shape, w, b, padding=1) for b in (None, normal(3, 5)))
        out = np.zeros(plan.out_shape, np.float32)
        for made, held in ((plan, plan.w), (biased, biased.bias)):
            made(x, out).wait()
            held.close()
            with pytest.raises(ValueError, match="closed"):
                made(x, out)
        plan = conv2d.plan(dev, x.shape, w, padding=1)
        product = gemm.plan(dev, 2, 3, 4)
    with pytest.raises((sp.DeviceLost, ValueError)):
        plan(x, out)
    with pytest.raises((sp.DeviceLost, ValueError)):
        product(normal(1, 2, 4), normal(2, 4, 3), np.empty((2, 3), np.float32))
    assert len(by_python) == 4


def test_many_threads_share_a_plan(dev):
    x, w = normal(1, 1, 4, 6, 6), normal(2, 5, 4, 3, 3)
    plan = conv2d.plan(dev, x.shape, w, padding=1)
    want, wrong = ref.conv2d(x, w, padding=PADDED), []

    def work(seed):
        factor = np.float32(seed)
        mine, out = x * factor, np.empty(plan.out_shape, np.float32)
        for _ in range(200):
            out[:] = np.nan
            plan(mine, out).wait()
            if not np.allclose(out, want * factor, 1e-4, 1e-4):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_plan_that_makes_no_sense_is_refused(dev):
    w = dev.array(normal(1, 1, 1, 1, 1))
    plan = conv2d.plan(dev, (1, 1, 2, 2), w)
    head, scalars = plan.kernel._heads[None], bytes(72)
    good = (dev.default_queue, plan.kernel, head, scalars, w, None)
    assert _hot.Planned(*good)
    for at, odd, error in (
        (0, dev, TypeError), (1, None, TypeError), (2, head[1:], ValueError),
        (2, bytes(len(head)), ValueError), (3, bytes(71), ValueError), (4, None, TypeError),
        (5, normal(1, 1), TypeError),
    ):  # fmt: skip
        with pytest.raises(error):
            _hot.Planned(*good[:at], odd, *good[at + 1 :])
    with pytest.raises(TypeError):
        _hot.Planned(*good, extra=1)
    bare = _hot.PlanBase()
    with pytest.raises(AttributeError):
        bare()
    bare._short_way = 5
    with pytest.raises(AttributeError):
        bare(1, 2, 3)
