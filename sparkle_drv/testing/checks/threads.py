"""Threads: any thread may submit to any queue, wait for any fence, and make and close objects."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import sparkle_drv as sp
from sparkle_drv.testing.checks.base import check, groups_for, kernel

THREADS = 4
ROUNDS = 25
N = 300


def _together(work: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        for future in [pool.submit(work, i) for i in range(THREADS)]:
            future.result(60)


def _launches(dev: sp.Device, k: sp.Kernel, queue: sp.Queue, thread: int) -> None:
    """Runs launches, lists and copies that depend on one another, with values unique to a
    thread.
    """
    with dev.empty(N, np.float32) as x, dev.empty(N, np.float32) as y:
        groups = groups_for(k, N)
        for i in range(ROUNDS):
            value = float(100 * thread + i)
            queue.launch(k, x, value, N, groups=groups)
            if i % 3 == 0:
                fence = queue.submit(sp.Commands().copy(y, x))
                fence.wait()
                assert (y.buffer.read(np.float32, N) == value).all(), f"thread {thread}, round {i}"
        out = np.empty(N, np.float32)
        queue.read(x.buffer, out).wait()
        assert (out == value).all(), f"thread {thread}"


@check("threads")
def check_threads_on_one_queue(dev: sp.Device) -> None:
    with kernel(dev, "fill_f32") as k, dev.queue() as queue:
        _together(lambda i: _launches(dev, k, queue, i))
        assert queue.reached == queue.submitted


@check("threads")
def check_a_queue_for_each_thread(dev: sp.Device) -> None:
    def work(thread: int) -> None:
        with kernel(dev, "fill_f32") as k, dev.queue() as queue:
            _launches(dev, k, queue, thread)

    _together(work)


@check("threads")
def check_a_prepared_launch_from_all_threads(dev: sp.Device) -> None:
    values: list[int] = []
    with kernel(dev, "noop") as k, dev.queue() as queue:
        go = queue.prepare(k, groups=1)
        _together(lambda _: values.extend(go() for _ in range(ROUNDS)))
        queue.fence(max(values)).wait()
        assert sorted(values) == list(range(1, THREADS * ROUNDS + 1)), "a value was given out twice"


@check("threads")
def check_all_threads_wait_for_one_fence(dev: sp.Device) -> None:
    with kernel(dev, "noop") as k, dev.queue() as queue:
        for _ in range(ROUNDS):
            fence = queue.submit(sp.Commands().dispatch(k, groups=3))
            _together(lambda _, f=fence: f.wait() and None)  # type: ignore[misc]
