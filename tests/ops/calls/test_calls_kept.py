"""What a call table keeps when objects are freed, closed or busy between two calls.

When this fails, a repeated call uses freed memory, or keeps memory for ever.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from agree import agree
from callkit import CALLS

import sparkle_drv as sp
from sparkle_drv import ops

pytestmark = pytest.mark.opens(threads=1)

EACH = pytest.mark.parametrize("name", CALLS)
PLANS = [name for name in CALLS if "plan" in name]
CONSTANTS = [name for name in CALLS if "constant" in name]


def known(dev, name):
    """A call that C makes: what makes it, its operands and its result."""
    call = CALLS[name]
    run, given = call.on(dev), call.operands()
    run(**given)
    return run, given, call.result(**given)


def busy(dev):
    """The fence of work that takes a while."""
    work = sp.Commands().dispatch(dev.kernel("busy_u32"), dev.buffer(4), 30_000_000, groups=1)
    return dev.default_queue.submit(work)


@EACH
def test_work_in_flight_comes_first(dev, slowly, name):
    run, given, want = known(dev, name)
    del slowly[:]
    fence = busy(dev)
    agree(run(**given), want)
    assert fence.done
    assert slowly == []


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_does_not_wait(dev, name):
    call = CALLS[name]
    plan, given = call.plan(dev), call.operands()
    want = call.result(**given)
    out = np.zeros(want.shape, np.float32)
    operands = [given.pop("a" if "a" in given else "x")]
    operands += [given.pop("b")] if "b" in given else []
    plan(*operands, out, **given).wait()
    before, seen = busy(dev), [weakref.ref(x) for x in (*operands, out)]
    out[:] = 0
    fence = plan(*operands, out, **given)
    assert type(fence) is sp.Fence
    assert (fence.queue, fence.value > before.value) == (plan.queue, True)
    result = out
    del operands, given, out
    gc.collect()
    assert all(thing() is not None for thing in seen)
    assert fence.wait() is fence
    agree(result, want)


@EACH
def test_a_closed_queue_and_a_new_one(dev, slowly, name):
    run, given, want = known(dev, name)
    dev.default_queue.close()
    if name in PLANS:
        with pytest.raises((ValueError, sp.DeviceLost)):
            run(**given)
        return
    for _ in range(2):
        del slowly[:]
        agree(run(**given), want)
    assert slowly == []


@EACH
def test_closed_kernels(dev, name):
    run, given, want = known(dev, name)
    for kernel in dev.kept["ops kernels"].values():
        kernel.close()
    for kept in list(dev.kept.get("ops plans", {}).values()):
        kept[0].close()
    if name in PLANS:
        with pytest.raises(ValueError, match="closed"):
            run(**given)
        return
    for _ in range(3):
        agree(run(**given), want)


@EACH
def test_a_closed_device_and_another_one(name):
    with sp.open("cpu") as one, sp.open("cpu") as other:
        (run, given, want), (again, _, _) = known(one, name), known(other, name)
        one.close()
        for _ in range(2):
            with pytest.raises((sp.DeviceLost, ValueError)):
                run(**given)
            agree(again(**given), want)


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_closed_constant(dev, name):
    call = CALLS[name]
    (which,), given = call.constants, call.operands()
    for _ in range(3):
        with ops.constant(dev, given[which]) as held:
            for _ in range(2):
                agree(call.run(dev, **given | {which: held}), call.result(**given))
        for _ in range(2):
            with pytest.raises(ValueError, match="closed"):
                call.run(dev, **given | {which: held})
        given[which] = given[which] * 2


@pytest.mark.parametrize("name", CONSTANTS)
def test_with_a_constant_its_rows_and_its_memory_go(dev, name):
    call = CALLS[name]
    (which,), given = call.constants, call.operands()
    before = None
    for _ in range(3):
        held = ops.constant(dev, given[which])
        call.run(dev, **given | {which: held})
        gone = weakref.ref(held)
        del held
        gc.collect()
        assert gone() is None
        before = before or dev.live_counts()
        assert dev.live_counts() == before


def test_many_constants_of_one_shape(dev, slowly):
    x, weights = np.ones((3, 4), np.float32), [np.full((4, 5), i, np.float32) for i in range(30)]
    held = [ops.constant(dev, w) for w in weights]
    for _ in range(2):
        del slowly[:]
        for i, w in enumerate(held):
            agree(ops.gemm(dev, x, w), np.full((3, 5), 4 * i))
    assert slowly == []


def test_a_constant_of_another_device(dev):
    x = np.ones((4, 4), np.float32)
    with sp.open("cpu") as other:
        for first, second in ((dev, other), (other, dev)):
            held = ops.constant(first, x)
            for _ in range(2):
                agree(ops.gemm(first, x, held), x @ x)
                with pytest.raises(ValueError, match="b: expected an open Constant of"):
                    ops.gemm(second, x, held)


def test_closed_weights_of_a_plan(dev):
    x = np.ones((4, 4), np.float32)
    image, out = x[None, None], np.empty((1, 1, 4, 4), np.float32)
    bias = np.ones(1, np.float32)
    for which in ("w", "bias"):
        plan = ops.conv2d.plan(dev, image.shape, bias.reshape(1, 1, 1, 1), bias)
        plan(image, out).wait()
        getattr(plan, which).close()
        with pytest.raises(ValueError, match="closed"):
            plan(image, out)
    plan = ops.gemm.plan(dev, 4, 4, 4, b=x)
    plan(x, None, out[0, 0]).wait()
    plan.weights.close()
    with pytest.raises(ValueError, match="closed"):
        plan(x, None, out[0, 0])


def test_a_device_that_is_kept_by_what_it_keeps_goes():
    device = sp.open("cpu")
    plan, x = ops.gemm.plan(device, 4, 4, 4), np.ones((4, 4), np.float32)
    held = ops.constant(device, x)
    for _ in range(2):
        ops.gemm(device, x, held)
        ops.map(device, "2*x", x)
        fence = plan(x, x, x.copy())
    device.kept["round"] = device, plan, held, fence
    seen = [weakref.ref(thing) for thing in (device, held)]
    device.close()
    del device, plan, held, fence
    gc.collect()
    assert [thing() for thing in seen] == [None, None]


@EACH
def test_nothing_is_kept_of_a_call(dev, name):
    run, given, want = known(dev, name)
    things = [dev, dev.default_queue, *given.values()]

    def work():
        for _ in range(12):
            run(**given)
            with pytest.raises((TypeError, ValueError)):
                run(**given | {next(iter(given)): None})

    work()
    gc.collect()
    before = [sys.getrefcount(thing) for thing in things]
    work()
    gc.collect()
    assert [sys.getrefcount(thing) for thing in things] == before
    agree(run(**given), want)


def test_threads_call_while_others_fill_and_empty_the_table(dev):
    """Of four rows alone, so that each call may lose its row while it runs."""
    dev._calls = sp._hot.Table(1)
    names = [name for name in CALLS if name != "gemm of f64"]
    runs = {name: known(dev, name) for name in names}
    stop = threading.Event()

    def work(seed):
        rng = np.random.default_rng(seed)
        while not stop.is_set():
            name = names[rng.integers(len(names))]
            run, given, want = runs[name]
            agree(run(**given), want)
            n = int(rng.integers(1, 9))
            agree(ops.map(dev, "x*2", np.ones(n, np.float32)), np.full(n, 2))

    def disturb():
        for i in range(60):
            with ops.constant(dev, np.full((3, 3), i, np.float32)) as held:
                for _ in range(2):
                    agree(ops.gemm(dev, np.eye(3, dtype=np.float32), held), np.full((3, 3), i))
            dev._calls = sp._hot.Table(1)
            gc.collect(0)
        stop.set()

    with ThreadPoolExecutor(4) as pool:
        jobs = [*(pool.submit(work, seed) for seed in range(3)), pool.submit(disturb)]
        try:
            jobs[-1].result()
        finally:
            stop.set()
        for job in jobs:
            job.result()


@pytest.mark.parametrize("name", PLANS)
def test_fences_of_one_plan_in_many_threads(dev, name):
    call = CALLS[name]
    run, given = call.on(dev), call.operands()
    want = call.result(**given)

    def work(_):
        out = np.empty(want.shape, np.float32)
        for _ in range(100):
            out[:] = np.nan
            agree(run(**given, out=out), want)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
