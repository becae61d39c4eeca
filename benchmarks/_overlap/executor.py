"""The work that async_executor.py times: a frame goes to the device, through a kernel and back, in
three ways.

A frame is an array x of n floats. The kernel computes x + y, where y stays on the device. No frame
equals the previous one, and each result is compared with numpy.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sparkle_drv as sp

KINDS = 8  # number of different input arrays ("frames"), which are used in turn
DEPTH = 3
BATCH = 8
WAYS = ("synchronous", "batched", "triple-buffered")

Array = NDArray[Any]


class Slot:
    """The memory of one frame (input array) and its result, on host and device. Also the commands
    that copy the frame to the device, run the kernel and copy the result back.
    """

    def __init__(self, work: Work) -> None:
        dev, nbytes = work.dev, 4 * work.n
        with ExitStack() as stack:
            hosts = [stack.enter_context(dev.buffer(nbytes, sp.Memory.HOST)) for _ in range(2)]
            self.x, self.z = (stack.enter_context(dev.buffer(nbytes)) for _ in range(2))
            self.commands = sp.Commands().copy(self.x, hosts[0])
            self.commands.dispatch(work.kernel, self.z, self.x, work.y, work.n, groups=work.groups)
            self.commands.copy(hosts[1], self.z)
            views = [stack.enter_context(host.map()) for host in hosts]
            self.host_x, self.host_z = (np.frombuffer(view, np.float32) for view in views)
            self._stack = stack.pop_all()
            self._stack.callback(self._forget)

    def _forget(self) -> None:
        self.host_x = self.host_z = np.empty(0, np.float32)

    def close(self) -> None:
        self._stack.close()


class Work:
    """The input arrays ("frames") of `n` floats, and what the device `dev` needs to process them.
    A `with` statement frees all of it.
    """

    def __init__(self, dev: sp.Device, n: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.dev, self.n = dev, n
        self.frames: Array = rng.standard_normal((KINDS, n), np.float32)
        host_y = rng.standard_normal(n, np.float32)
        self.wanted: Array = self.frames + host_y
        self.kernel = dev.kernel("vecadd_f32")
        self.groups = -(-n // self.kernel.group_size[0])
        self.y = dev.array(host_y)
        self.queue = dev.queue()
        self.x, self.z = dev.empty(n, np.float32), dev.empty(n, np.float32)
        self.out: Array = np.empty((BATCH, n), np.float32)

    def __enter__(self) -> Work:
        return self

    def __exit__(self, *_: object) -> None:
        for part in (self.queue, self.x, self.y, self.z, self.kernel):
            part.close()

    def launch(self) -> sp.Fence:
        return self.queue.launch(self.kernel, self.z, self.x, self.y, self.n, groups=self.groups)

    def judge(self, got: Array, frame: int, way: str) -> None:
        if not np.array_equal(got, self.wanted[frame % KINDS]):
            raise ValueError(f"{way}, frame {frame}: expected numpy's result x + y, got another")

    def kernel_s(self, count: int = 64) -> float:
        """Returns the seconds of one run of the kernel alone. A list of `count` runs is timed five
        times, and the shortest time is divided by `count`.
        """
        commands = sp.Commands()
        for _ in range(count):
            commands.dispatch(self.kernel, self.z, self.x, self.y, self.n, groups=self.groups)
        taken = []
        for _ in range(5):
            start = time.perf_counter()
            self.queue.submit(commands).wait()
            taken.append((time.perf_counter() - start) / count)
        return min(taken)


def synchronous(work: Work, frames: int, judged: bool) -> float:
    """Processes one frame (input array) after the other: waits for each copy and launch before the
    next is submitted. Returns the seconds. With `judged`, compares each result with numpy.
    """
    queue, out = work.queue, work.out[0]
    start = time.perf_counter()
    for frame in range(frames):
        queue.write(work.x.buffer, work.frames[frame % KINDS]).wait()
        work.launch().wait()
        queue.read(work.z.buffer, out).wait()
        if judged:
            work.judge(out, frame, "synchronous")
    return time.perf_counter() - start


def batched(work: Work, frames: int, judged: bool) -> float:
    """Submits BATCH frames (input arrays) one after the other, then waits for all of them. Returns
    the seconds. With `judged`, compares each result with numpy.
    """
    queue, out = work.queue, work.out
    start = time.perf_counter()
    for first in range(0, frames, BATCH):
        for frame in range(first, min(first + BATCH, frames)):
            queue.write(work.x.buffer, work.frames[frame % KINDS])
            work.launch()
            fence = queue.read(work.z.buffer, out[frame - first])
        fence.wait()
        for frame in range(first, min(first + BATCH, frames) if judged else first):
            work.judge(out[frame - first], frame, "batched")
    return time.perf_counter() - start


def triple_buffered(work: Work, frames: int, judged: bool) -> float:
    """Processes the frames (input arrays) in three slots, each with its own memory and queue.
    Returns the seconds. With `judged`, compares each result with numpy.

    The host waits for a slot when its turn comes again, while the two other slots are still
    running.
    """
    with work.dev.pipeline(DEPTH, lambda: Slot(work), overlap=True) as pipe:
        start = time.perf_counter()
        for frame in range(frames):
            slot = pipe.acquire()
            if judged and frame >= DEPTH:
                work.judge(slot.host_z, frame - DEPTH, "triple-buffered")
            slot.host_x[:] = work.frames[frame % KINDS]
            pipe.submit(slot, slot.commands)
        for frame in range(max(0, frames - DEPTH), frames):
            slot = pipe.acquire()
            if judged:
                work.judge(slot.host_z, frame, "triple-buffered")
        return time.perf_counter() - start


RUN: dict[str, Callable[[Work, int, bool], float]] = dict(
    zip(WAYS, (synchronous, batched, triple_buffered), strict=True)
)


def measure(work: Work, frames: int, rounds: int) -> tuple[dict[str, list[float]], list[float]]:
    """Returns ({a name of WAYS: seconds of each round}, seconds of the kernel alone). All WAYS of
    running the frames are verified first, then timed in turns, in an order that rotates.
    """
    for way in WAYS:
        RUN[way](work, 3 * KINDS, True)
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    alone = []
    for at in range(rounds):
        for way in WAYS[at % 3 :] + WAYS[: at % 3]:
            seconds[way].append(RUN[way](work, frames, False))
        alone.append(work.kernel_s())
    return seconds, alone
