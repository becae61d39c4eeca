"""Child of test_checks_once.py: makes one wrong call by each way, and prints what was raised.

    probe_checks.py CHECK [WAY...]

A line for each way: the way, then the error's type and text, or nothing. WAY: these alone.
"""

from __future__ import annotations

import sys

import numpy as np

import sparkle_drv as sp
from sparkle_drv import ops

CHECK, WANTED = sys.argv[1], sys.argv[2:]
N = 4096
dev, other = sp.open("cpu"), sp.open("cpu")
queue, saxpy = dev.default_queue, dev.kernel("saxpy_f32")


def filled(n: int = N, dtype=np.float32, on: sp.Device = dev) -> sp.Array:
    return on.array(np.ones(n, dtype))


def square(dtype=np.float32, on: sp.Device = dev) -> sp.Array:
    return on.array(np.ones((8, 8), dtype))


def locked(shape) -> sp.Buffer:
    """Memory that a launch must not write."""
    host = np.ones(shape, np.float32)
    host.flags.writeable = False
    return dev.wrap(host)


class Wrong:
    """What a way is given: arguments of saxpy, operands of a plan, groups and their size."""

    def __init__(self) -> None:
        x, a = filled(), square()
        self.call = [filled(), x, 2.0, N]
        self.product = [a, square(), square()]
        self.words = {"groups": 16}
        self.late: list[sp.Array] = []
        """Closed when the call has been made some times."""
        match CHECK:
            case "closed":
                x.close()
                a.close()
            case "elsewhere":
                self.call[1], self.product[0] = filled(on=other), square(on=other)
            case "elements":
                self.call[1], self.product[0] = filled(dtype=np.float64), square(np.float64)
            case "read-only":
                self.call[0], self.product[2] = locked(N), locked((8, 8))
            case "extent":
                self.call[1] = filled(N - 1)
                self.product[0] = dev.array(np.ones((7, 8), np.float32))
            case "group size":
                self.words = {"groups": 1, "group_size": 70_000}
                self.call[3] = 10
            case "arguments":
                self.call.append(1)
            case "range":
                self.call[3] = 2**32
            case "overlap":
                self.product[2] = a
            case "epoch":
                self.late = [x, a]

    def made(self, make) -> None:
        """Makes the call; before that, if operands are to be closed late, twice with them open."""
        if self.late:
            make().wait()
            make().wait()
        for array in self.late:
            array.close()
        make().wait()


def launch(w: Wrong) -> None:
    w.made(lambda: queue.launch(saxpy, *w.call, **w.words))


def prepare(w: Wrong) -> None:
    go = queue.prepare(saxpy, *w.call, **w.words)
    w.made(lambda: queue.fence(go()))


def commands(w: Wrong) -> None:
    made = sp.Commands().dispatch(saxpy, *w.call, **w.words)
    w.made(lambda: queue.submit(made))


def plan(w: Wrong) -> None:
    made = ops.gemm.plan(dev, 8, 8, 8)
    w.made(lambda: made(*w.product))


def bind(w: Wrong) -> None:
    go = ops.gemm.plan(dev, 8, 8, 8).bind(*w.product)
    w.made(lambda: queue.fence(go()))


WAYS = {"launch": launch, "prepare": prepare, "commands": commands, "plan": plan, "bind": bind}
for way in WANTED or WAYS:
    print(way, end=" ", flush=True)
    try:
        WAYS[way](Wrong())
    except (TypeError, ValueError, sp.SparkleError) as error:
        print(f"{type(error).__name__}: {error}", end="")
    print(flush=True)
