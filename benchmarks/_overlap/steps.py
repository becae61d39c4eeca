"""The steps that pipeline_overlap.py times: numpy on the host before and after a product on the
device. Each slot has its own memory.

Only `balance` reads a clock: it makes the host's work as long as requested.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sparkle_drv as sp
from sparkle_drv.ops import ref

Array = NDArray[Any]
MOST_PASSES = 1024
# number of different input batches ("frames"), used in turn, so that an old result is noticed
KINDS = 8


class Slot:
    """The memory of one frame (a batch of n by n numbers) and its result, on host and device. Also
    the commands that upload the frame, compute the product and download the result.
    """

    def __init__(self, dev: sp.Device, work: Work) -> None:
        n = work.n
        self.host_x, self.host_y = (dev.buffer(4 * n * n, sp.Memory.HOST) for _ in range(2))
        self.x, self.y = (dev.buffer(4 * n * n) for _ in range(2))
        # strides in elements: of a row and a column of a, of a row and a column of b, of a row of c
        row_major = (n, 1, n, 1, n)
        self.commands = sp.Commands().copy(self.x, self.host_x)
        self.commands.dispatch(
            work.kernel, self.y, self.x, work.weights, None, n, n, n, *row_major, 0
        )
        self.commands.copy(self.host_y, self.y)


class Work:
    """The operands of all steps. A step multiplies a batch of n by n numbers by fixed weights."""

    def __init__(self, dev: sp.Device, n: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.dev, self.n, self.passes = dev, n, 1
        self.raw = rng.integers(0, 256, (KINDS, n, n), np.uint8)
        host_weights = rng.standard_normal((n, n), np.float32)
        self.weights = dev.array(host_weights)
        self.kernel = sp.ops.gemm.plan(dev, n, n, n).kernel
        self.queue = dev.queue(timing=True)
        self.alone = Slot(dev, self)
        inputs = [self.frame(step).astype(np.float64) for step in range(KINDS)]
        self.wanted = [ref.gemm(x, host_weights.astype(np.float64)) for x in inputs]
        self.tolerance = ref.tolerance("gemm_f32", k=n)

    def frame(self, step: int) -> Array:
        """Returns a frame after the host's work that precedes the product: rows of bytes are scaled
        to mean 0 and deviation 1.

        The scaling is repeated `passes` times, in place of a heavier preparation. Further passes
        change only rounding.
        """
        x: Array = self.raw[step % KINDS].astype(np.float32)
        for _ in range(self.passes):
            x -= x.mean(1, keepdims=True)
            x /= x.std(1, keepdims=True)
        return x

    def fill(self, slot: Slot, step: int) -> None:
        with slot.host_x.map() as view:
            np.copyto(np.frombuffer(view, np.float32).reshape(self.n, self.n), self.frame(step))

    def result(self, slot: Slot) -> Array:
        with slot.host_y.map() as view:
            y: Array = np.frombuffer(view, np.float32).reshape(self.n, self.n).copy()
        return y

    def consume(self, slot: Slot) -> float:
        """Does the host's work that follows the product: returns the mean log-sum-exp of the rows,
        as a loss would be.
        """
        y = self.result(slot)
        most = y.max(1, keepdims=True)
        return float(np.mean(np.log(np.exp(y - most).sum(1)) + most[:, 0]))

    def judge(self, y: Array, step: int, what: str) -> None:
        miss = ref.mismatch(y, self.wanted[step % KINDS], self.tolerance)
        if miss.index is not None:
            raise ValueError(
                f"{what}, step {step}: y[{miss.index}] {miss.got}, expected {miss.want}"
            )

    def balance(self, share: float) -> tuple[float, float]:
        """Sets `passes`, the repetitions of the host's work in a step, so that this work takes
        `share` times as long as the device's work. Returns (host, device) in seconds per step.
        """
        device = min(self.queue.submit(self.alone.commands).time_ns for _ in range(5)) / 1e9
        self.passes, host = 1, self._host_s()
        # Double `passes` until the host's work takes `share` times the time of the device's work.
        # The time of much shorter work would be mostly noise on a busy machine.
        while host < share * device and self.passes < MOST_PASSES:
            self.passes *= 2
            host = self._host_s()
        self.passes = max(1, round(self.passes * share * device / host))
        return self._host_s(), device

    def _host_s(self) -> float:
        seconds = []
        for step in range(5):
            start = time.perf_counter()
            self.fill(self.alone, step)
            self.consume(self.alone)
            seconds.append(time.perf_counter() - start)
        return min(seconds)
