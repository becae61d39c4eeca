"""Operations from many threads at once: shared tables of calls, packed weights and plans, recycled
results, queues that wait for fences, and closes in between. Every result is compared with
numpy's. `make tsan` looks for data races in it.

When this fails, many threads that call operations get each other's results.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agree import agree

import sparkle_drv as sp
from sparkle_drv import ops
from sparkle_drv.ops import ref
from sparkle_drv.ops.memory import recycled

THREADS = 6
STEPS = 60
F32 = np.float32
SIDES = (1, 5, 8, 40, 96, 256)  # the largest for several threads of the pool


@pytest.fixture(params=[1, 3])
def dev(request):
    """Threads take turns a hundred times as often as usual."""
    before, most = sys.getswitchinterval(), recycled.limit()
    sys.setswitchinterval(1e-5)
    recycled.limit(64 << 20)
    with sp.open("cpu", threads=request.param) as device:
        yield device
    recycled.limit(most)
    sys.setswitchinterval(before)


def together(*works: Callable[[random.Random], None], seconds: float = 100) -> None:
    """Each in THREADS / len(works) threads of its own; the first error is raised here."""
    seed = random.SystemRandom().getrandbits(32)
    print("seed", seed)
    errors: list[BaseException] = []
    go = threading.Barrier(THREADS)

    def run(number: int) -> None:
        try:
            go.wait()
            works[number % len(works)](random.Random(seed + number))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if errors:
        raise errors[0]


def some(seed: int, *shape: int, dtype: Any = F32) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def test_products_with_weights_that_all_share(dev):
    """Packed copies are made and found by all; some constants are one thread's own."""
    shared = [some(s, s, s, dtype=t) for s in SIDES for t in (F32, "d")]
    constants = [ops.constant(dev, b) for b in shared]

    def work(chance):
        for step in range(STEPS):
            i = chance.randrange(len(shared))
            b, held = shared[i], constants[i]
            if step % 4 == 3:
                held = chance.choice((b, ops.constant(dev, b)))
            m, bias = chance.choice((1, 3, 17, 256)), some(step, b.shape[1], dtype=b.dtype)
            a = some(step, m, b.shape[0], dtype=b.dtype)
            out = np.empty((m, b.shape[1]), b.dtype) if chance.random() < 0.5 else None
            given = bias if chance.random() < 0.5 else None
            agree(ops.gemm(dev, a, held, out, bias=given), a @ b + (0 if given is None else given))

    together(work)


def test_convolutions_with_weights_that_all_share(dev):
    shapes = [(4, 3, 3, 3), (16, 8, 1, 1), (8, 8, 3, 3), (32, 32, 3, 3)]
    shared = [(some(i, *shape), shape[2] // 2) for i, shape in enumerate(shapes)]
    constants = [ops.constant(dev, w) for w, _ in shared]
    images = [some(9, n, shape[1], 34, 37) for shape in shapes for n in (1, 2)]
    wanted = [
        ref.conv2d(x, shared[i // 2][0], padding=((shared[i // 2][1],) * 2,) * 2)
        for i, x in enumerate(images)
    ]

    def work(chance):
        for _ in range(STEPS):
            i = chance.randrange(len(images))
            w, padding = constants[i // 2], shared[i // 2][1]
            agree(ops.conv2d(dev, images[i], w, padding=padding), wanted[i])

    together(work)


def test_plans_that_several_threads_call(dev):
    b, w = some(1, 96, 64), some(2, 8, 6, 3, 3)
    product = ops.gemm.plan(dev, 40, 64, 96, b=b)
    convolution = ops.conv2d.plan(dev, (1, 6, 12, 12), w, padding=1)

    def multiply(chance):
        a, out = some(chance.randrange(99), 40, 96), np.empty((40, 64), F32)
        for _ in range(STEPS):
            out[:] = np.nan
            product(a, None, out).wait()
            agree(out, a @ b)

    def convolve(chance):
        x, out = some(chance.randrange(99), 1, 6, 12, 12), np.empty(convolution.out_shape, F32)
        wanted = ref.conv2d(x, w, padding=((1, 1), (1, 1)))
        for _ in range(STEPS):
            out[:] = np.nan
            fence = convolution(x, out)
            if chance.random() < 0.5:
                product(some(3, 40, 96), None, np.empty((40, 64), F32))  # and nobody waits for it
            fence.wait()
            agree(out, wanted)

    together(multiply, convolve)
    dev.wait_idle()


def test_results_whose_memory_comes_round(dev):
    """Large results are kept for a while, dropped, or handed to a thread that drops them."""
    passed: list[Any] = []

    def work(chance):
        kept: list[Any] = []
        for step in range(STEPS):
            n = chance.choice((300_000, 400_000, 1_200_000))
            x = np.full(n, step, F32)
            y = ops.map(dev, lambda x: x * 2 + 1, x) if step % 2 else x * 2 + 1
            total = ops.reduce(dev, y, "max")
            assert total == 2 * step + 1
            kept.append((y, 2 * step + 1))
            passed.append(y)
            if chance.random() < 0.5:
                del kept[: chance.randrange(len(kept) + 1)]
            while len(passed) > 4:
                passed.pop(0)
            for z, value in kept:
                assert z[0] == z[-1] == value
            if chance.random() < 0.05:
                recycled.release()

    together(work)


def test_queues_that_wait_for_each_other(dev):
    """Fences are made in one thread and waited for in another, and by queues that close."""
    n = 3000
    with dev.kernel("fill_i32") as fill, dev.kernel("vecadd_i32") as add:
        handed: list[Any] = []

        def work(chance):
            for step in range(STEPS):
                with (
                    dev.queue(timing=chance.random() < 0.5) as one,
                    dev.queue() as two,
                    dev.empty(n, np.int32) as x,
                    dev.empty(n, np.int32) as y,
                ):
                    first = one.launch(fill, x, step, n, groups=chance.choice((12, 30)))
                    after = sp.Commands().wait(first).dispatch(add, y, x, x, n, groups=12)
                    second = two.submit(after)
                    handed.append(second)
                    for fence in handed[-3:]:
                        chance.choice((fence.wait, fence.queue.describe, lambda f=fence: f.done))()
                    second.wait()
                    assert (y.numpy() == 2 * step).all()
                del handed[:-5]

        together(work)
        handed.clear()


def test_prepared_launches_that_several_threads_call_while_others_close(dev):
    """Whatever is closed makes records stale: each caller then prepares them anew, for all."""
    n = 256
    with dev.kernel("fill_f32") as k, dev.queue() as queue, dev.empty(n, F32) as x:
        go = queue.prepare(k, x, 2.0, n, groups=1)

        closed: list[bool] = []

        def launch(chance):
            while len(closed) < THREADS // 2:
                assert go() > 0

        def close(chance):
            for _ in range(2 * STEPS):
                dev.buffer(chance.choice((16, 100_000))).close()
            closed.append(True)

        together(launch, close)
        queue.fence(queue.submitted).wait()
        assert (x.numpy() == 2).all()


def test_devices_come_and_go():
    x = some(5, 64, 64)

    def work(chance):
        for _ in range(STEPS // 8):
            with sp.open("cpu", threads=chance.choice((1, 2, 5))) as mine:
                agree(ops.gemm(mine, x, x), x @ x)
                agree(ops.reduce(mine, np.ones(1 << 18, F32)), 1 << 18)

    together(work)
