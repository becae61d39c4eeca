"""Child of test_checks_once.py: makes one wrong call by each way, and prints what was raised.

    probe_checks.py CHECK [WAY...]

A line for each way: the way, then the error's type and text, or nothing. WAY: these alone.
"""

from __future__ import annotations

import sys
from functools import partial

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


def image(on: sp.Device = dev) -> sp.Array:
    return on.array(np.ones((1, 1, 8, 8), np.float32))


def locked(shape) -> sp.Buffer:
    """Memory that a launch must not write."""
    host = np.ones(shape, np.float32)
    host.flags.writeable = False
    return dev.wrap(host)


class Wrong:
    """What a way is given: arguments of saxpy, operands of a plan, groups and their size; a matrix
    and an image for operations of `device`."""

    def __init__(self, device: sp.Device = dev) -> None:
        x, a = filled(), square()
        self.device, self.matrix, self.image = device, square(on=device), image(device)
        self.call = [filled(), x, 2.0, N]
        self.product = [a, square(), square()]
        self.words = {"groups": 16}
        self.late: list[sp.Array] = []
        """Closed when the call has been made some times."""
        match CHECK:
            case "closed":
                for array in (x, a, self.matrix, self.image):
                    array.close()
            case "elsewhere":
                self.call[1], self.product[0] = filled(on=other), square(on=other)
                self.matrix, self.image = square(on=other), image(other)
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


def image_plan():
    return ops.conv2d.plan(dev, (1, 1, 8, 8), WEIGHTS, padding=1)


def plan_of_images(w: Wrong) -> None:
    made = image_plan()
    w.made(lambda: made(w.product[0], w.product[2]))


def bind_images(w: Wrong) -> None:
    go = image_plan().bind(w.product[0], w.product[2])
    w.made(lambda: queue.fence(go()))


WEIGHTS = np.ones((1, 1, 3, 3), np.float32)
OPERATIONS = {
    "gemm": lambda op, w: op("gemm", w.matrix, np.ones((8, 8), np.float32)),
    "conv2d": lambda op, w: op("conv2d", w.image, WEIGHTS),
    "map": lambda op, w: op("map", "x + 1", w.matrix),
    "reduce": lambda op, w: op("reduce", w.matrix, "max"),
    "layout": lambda op, w: op("layout", w.image, "NHWC", source="NCHW"),
}


def of_device(make, w: Wrong) -> None:
    make(lambda name, *given, **named: getattr(ops, name)(dev, *given, **named), w).fence.wait()


def of_context(make) -> None:
    with sp.init(["cpu"]) as ctx:
        w = Wrong(ctx.device)
        make(lambda name, *given, **named: getattr(ctx, name)(*given, **named), w).fence.wait()


WAYS = {
    "launch": launch, "prepare": prepare, "commands": commands, "plan": plan, "bind": bind,
    "image-plan": plan_of_images, "image-bind": bind_images,
}  # fmt: skip
WAYS |= {name: partial(of_device, make) for name, make in OPERATIONS.items()}
WAYS |= {f"ctx-{name}": lambda _, m=make: of_context(m) for name, make in OPERATIONS.items()}
for way in WANTED or WAYS:
    print(way, end=" ", flush=True)
    try:
        WAYS[way](Wrong())
    except (TypeError, ValueError, sp.SparkleError) as error:
        print(f"{type(error).__name__}: {error}", end="")
    print(flush=True)
