"""A call of an operation that is ended while its launch waits behind another: whatever the launch
reads and writes lives until it has run.

When this fails, memory is freed while an interrupted operation still uses it.
"""

import _thread
import contextlib
import errno
import gc
import threading
import time
import weakref
from functools import partial

import functions
import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv import ops
from sparkle_drv.core.retire import RetireList
from sparkle_drv.ops.memory import recycled

N = 300  # results of N x N and more are of blocks


class Stuck:
    """A device whose default queue does nothing until `free` is called."""

    def __init__(self, library):
        self.flag = np.zeros(16, np.uint32)
        self.dev = sp.open("cpu", threads=1)
        self.queue = self.dev.default_queue
        spin = self.dev.kernel(image=library, entry="spin", args="u32* flag")
        self._work = sp.Commands().dispatch(spin, self.dev.wrap(self.flag), groups=1)

    def begin(self):
        assert self.dev.live_counts()["retired"] == 0
        self.queue.submit(self._work)

    def free(self):
        self.flag[0] = 1
        while self.queue.reached < self.queue.submitted:
            time.sleep(0.0005)
        return self.dev.live_counts()["retired"]


@pytest.fixture
def stuck(userlib):
    made = Stuck(userlib.spin())
    before = recycled.limit()
    recycled.limit(256 << 20)
    yield made
    recycled.limit(before)
    made.free()
    made.dev.close()


def f32(*shape):
    return np.ones(shape, np.float32)


CALLS = {
    "gemm": (lambda dev, x, w: ops.gemm(dev, x, w), (N, 4), (4, N)),
    "gemm with bias": (lambda dev, x, b: ops.gemm(dev, x, f32(1, N), bias=b), (N, 1), (N,)),
    "conv2d": (lambda dev, x, w: ops.conv2d(dev, x, w), (1, 3, 100, 100), (8, 3, 1, 1)),
    "conv2d with bias": (
        lambda dev, x, b: ops.conv2d(dev, x, f32(8, 3, 1, 1), b), (1, 3, 100, 100), (8,)
    ),
    "map": (lambda dev, x, y: ops.map(dev, "3*x + y", x=x, y=y), (N, N), (N, N)),
    "map of numbers": (lambda dev, x: ops.map(dev, "a*x", x=x, a=0.5), (N, N)),
    "reduce": (lambda dev, x: ops.reduce(dev, x, "sum", 2), (300, 200, 2)),
    "layout": (lambda dev, x: ops.layout(dev, x, "NHWC"), (1, 3, 100, 200)),
}  # fmt: skip
PLANS = {
    "gemm": (
        lambda dev: ops.gemm.plan(dev, N, N, 4),
        lambda plan, x, w: plan(x, w, np.empty((N, N), np.float32)), (N, 4), (4, N)
    ),
    "gemm with bias": (
        lambda dev: ops.gemm.plan(dev, N, N, 1, b=f32(1, N)),
        lambda plan, x, b: plan(x, None, np.empty((N, N), np.float32), b), (N, 1), (N,)
    ),
    "conv2d": (
        lambda dev: ops.conv2d.plan(dev, (1, 3, 100, 100), f32(8, 3, 1, 1)),
        lambda plan, x, y: plan(x, y), (1, 3, 100, 100), (1, 8, 100, 100)
    ),
}  # fmt: skip


def interrupted(stuck, call):
    """Calls, and is interrupted as soon as that has submitted something."""
    before = stuck.queue.submitted

    def interrupt():
        while stuck.queue.submitted == before:
            time.sleep(0.0005)
        _thread.interrupt_main()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        call()
    except KeyboardInterrupt:  # not kept: its traceback has the frames, and they the arrays
        return
    finally:
        thread.join()
    pytest.fail("the wait went on")


def alive(things):
    """How many of these weak references are of something."""
    gc.collect()
    return sum(thing() is not None for thing in things)


@pytest.mark.parametrize("name", CALLS)
def test_an_interrupted_call_keeps_what_its_launch_uses(stuck, slowly, name):
    dev, (call, *shapes) = stuck.dev, CALLS[name]
    call(dev, *(f32(*shape) for shape in shapes))
    given = [f32(*shape) for shape in shapes]
    recycled.release()
    seen = [weakref.ref(x) for x in given]
    stuck.begin()
    del slowly[:]
    interrupted(stuck, partial(call, dev, *given))
    assert slowly == []
    del given
    assert alive(seen) == len(seen)
    assert recycled.kept() == 0  # else the next result were where this one is written
    assert stuck.free() == 0
    assert alive(seen) == 0
    assert recycled.kept() > 0


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_keeps_them_too(stuck, name):
    make, call, *shapes = PLANS[name]
    plan = make(stuck.dev)
    given = [f32(*shape) for shape in shapes]
    call(plan, *given).wait()
    stuck.begin()
    seen = [weakref.ref(x) for x in given]
    idle = {"submitted": lambda _: 0, "reached": lambda _: 0}  # it seems to be
    with functions.changed(stuck.queue, **idle):
        fence = call(plan, *given)
    assert not fence.done
    del given
    assert alive(seen) == len(seen)
    stuck.free()
    fence.wait()
    assert alive(seen) == 0


SLOW_CALLS = {  # a subclass is left to Python, always
    "gemm": (lambda dev, x, w: ops.gemm(dev, x.view(np.recarray), w), (N, 4), (4, N)),
    "conv2d plan": PLANS["conv2d"][1:],
    "launch": (
        lambda dev, y, x: dev.default_queue.launch(dev.kernel("copy_f32"), y, x, N, groups=2),
        (N,), (N,)
    ),
}  # fmt: skip


@pytest.mark.parametrize("stale", [True, False])
@pytest.mark.parametrize("name", SLOW_CALLS)
def test_a_launch_keeps_what_it_borrows(stuck, monkeypatch, name, stale):
    """An interrupt comes as soon as it has returned, before its fence is anybody's. After a record
    that is stale, Python launches.
    """
    (call, *shapes), dev = SLOW_CALLS[name], stuck.dev
    first = PLANS["conv2d"][0](dev) if name == "conv2d plan" else dev
    given = [f32(*shape) for shape in shapes]
    call(first, *given)
    dev.wait_idle()
    seen = [weakref.ref(x) for x in given]
    launch = sp.Queue.launch

    def ended(self, kernel, *args, **named):
        changes = {"launch": lambda *_: -errno.ESTALE} if stale else {}
        with functions.changed(self, **changes):
            launch(self, kernel, *args, **named)
        raise KeyboardInterrupt

    stuck.begin()
    monkeypatch.setattr(sp.Queue, "launch", ended)
    with contextlib.suppress(KeyboardInterrupt):
        call(first, *given)
    del given, first
    assert alive(seen) == len(seen)
    assert stuck.free() == 0
    assert alive(seen) == 0


WAITING = {
    **CALLS,
    "naive gemm": (lambda dev, x, w: ops.gemm(dev, x, w, algo="naive"), (N, 4), (4, N)),
    "map of rows": (lambda dev, x: ops.map(dev, "2*x", x=x, out=f32(N, 2 * N)[:, ::2]), (N, N)),
    "numpy": (lambda dev, x: dev.array(x).numpy(), (N, N)),
}


@pytest.mark.parametrize("name", WAITING)
def test_they_wait_for_as_long_as_their_queue_says(stuck, name):
    dev, (call, *shapes) = stuck.dev, WAITING[name]
    given = [f32(*shape) for shape in shapes]
    want = call(dev, *given)
    stuck.queue.timeout_s = 0.01
    stuck.begin()
    with pytest.raises(sp.FenceTimeout, match=r"within 0\.01 s"):
        call(dev, *given)
    stuck.queue.timeout_s = 30
    assert stuck.free() == 0
    np.testing.assert_array_equal(call(dev, *given), want)


@pytest.mark.parametrize("name", CALLS)
def test_a_failure_that_nobody_was_told_of_is_told(name):
    call, *shapes = CALLS[name]
    given = [f32(*shape) for shape in shapes]
    bad = sp.TilePlan(algo="naive", pack=True)  # no packed operand: the kernel refuses it
    with sp.open("cpu") as dev, dev.empty((1, 1), "f4") as x:
        want = call(dev, *given)
        k = dev.kernel("gemm_f32", plan=bad)
        work = sp.Commands().dispatch(k, x, x, x, None, 1, 1, 1, 1, 1, 1, 1, 1, 0)
        failed = dev.default_queue.submit(work)
        while not failed.done:
            pass
        with pytest.raises(sp.KernelFault):
            call(dev, *given)
        np.testing.assert_array_equal(call(dev, *given), want)


def test_a_queue_that_cannot_keep_things_keeps_them_for_ever(userlib, monkeypatch):
    """No memory for a few words: what a launch uses is then lost, but not free."""
    with monkeypatch.context() as patch:
        patch.setattr(RetireList, "keeping", lambda self, queue: ([].sort, None, None))
        stuck = Stuck(userlib.spin())
    call, *shapes = CALLS["gemm"]
    given = [f32(*shape) for shape in shapes]
    with stuck.dev:
        want = call(stuck.dev, *given)

        def freeing(self):
            stuck.free()
            return self

        monkeypatch.setattr(sp.Fence, "_wait_slowly", freeing)
        stuck.begin()
        np.testing.assert_array_equal(call(stuck.dev, *given), want)


def test_a_queue_that_may_wait_for_the_gil_is_not_asked_with_it(slowly):
    with sp.open("cpu") as dev:
        a, b = f32(5, 9), f32(9, 7)
        call, plan = ops.gemm, ops.gemm.plan(dev, 5, 7, 9)
        want, out = call(dev, a, b), np.empty((5, 7), np.float32)
        convolution = ops.conv2d.plan(dev, (1, 1, 4, 4), f32(1, 1, 1, 1))
        for brief in (True, False):
            del slowly[:]
            with functions.changed(dev.default_queue, brief=brief):
                del slowly[:]
                np.testing.assert_array_equal(call(dev, a, b), want)
                assert slowly == []
                plan(a, b, out).wait()
                np.testing.assert_array_equal(out, want)
                convolution(f32(1, 1, 4, 4), f32(1, 1, 4, 4)).wait()


def test_a_result_that_cannot_be_is_told_as_of_any_device():
    with sp.open("cpu") as dev:
        ops.gemm(dev, f32(3, 1), f32(1, 3))
        with pytest.raises(sp.OutOfDeviceMemory):
            ops.gemm(dev, f32(10**6, 1), f32(1, 10**6))
