"""Data-parallel training of a small network on several devices. One of them is killed meanwhile.

    python examples/gradients.py                          three simulated devices, one is killed
    python examples/gradients.py -d sim:a,sim:b --kill 5  sim:b is unplugged in step 5
    python examples/gradients.py -d cpu:c0,cpu:c1         real ones: all of them stay

Each device has the weights and its part of the batch, and computes the gradients of that part. The
sum of all gradients (mesh.all_reduce) changes the weights, alike on each device. The same training
on the first device alone tells whether the weights are right. A device that is lost is left: the
batch is dealt to the others, who begin the step again.
Exit codes: 0 well, 1 the loss does not fall or the weights are wrong, 2 usage, 3 no such device.
"""

from __future__ import annotations

import argparse
import random
import sys

import numpy as np

import sparkle_drv as sp
from sparkle_drv.testing import sim
from sparkle_drv.testing.faults import Fault, Schedule
from sparkle_drv.testing.simulated import SimDevice, SimMachine

DEVICES = ("sim:a", "sim:b", "sim:c")
KILL = 10
"""The step in which a simulated device is killed where nobody says another one."""
BATCH, INPUTS, HIDDEN, OUTPUTS = 240, 8, 32, 2
RATE = 0.1
SHAPES = {"w1": (INPUTS, HIDDEN), "b1": (1, HIDDEN), "w2": (HIDDEN, OUTPUTS), "b2": (1, OUTPUTS)}
Weights = dict[str, np.ndarray]


def began() -> Weights:
    """The weights before the first step."""
    chance = np.random.default_rng(1)
    return {
        name: (chance.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32)
        for name, shape in SHAPES.items()
    }


class Worker:
    """A device with its copy of the weights and its part of the batch."""

    def __init__(self, device: sp.Device, weights: Weights, x: np.ndarray, y: np.ndarray) -> None:
        self.device = device
        self.weights = {name: device.array(w) for name, w in weights.items()}
        self.x, self.y = device.array(x), device.array(y)

    def transposed(self, a: sp.Array) -> sp.Array:
        """A copy of a.T."""
        rows, columns = a.shape
        made = self.device.empty((columns, rows), a.dtype)
        return sp.ops.strided_copy(self.device, made, a, made.shape, src_strides=(1, columns))

    def gradients(self) -> tuple[float, dict[str, sp.Array]]:
        """The loss of its part of the batch and the gradients of that, to be summed up."""
        dev, w, turned = self.device, self.weights, self.transposed
        h = sp.ops.gemm(dev, self.x, w["w1"])
        h = sp.ops.map(dev, "relu(h + b)", h=h, b=w["b1"])
        said = sp.ops.map(dev, "h + b", h=sp.ops.gemm(dev, h, w["w2"]), b=w["b2"])
        off = sp.ops.map(dev, "said - y", said=said, y=self.y)
        d = sp.ops.map(dev, "s * off", s=2 / (BATCH * OUTPUTS), off=off)
        back = sp.ops.gemm(dev, d, turned(w["w2"]))
        dh = sp.ops.map(dev, "where(h > 0, back, 0)", h=h, back=back)
        found = {
            "w1": sp.ops.gemm(dev, turned(self.x), dh),
            "b1": sp.ops.reduce(dev, dh, "sum", 0, keepdims=True),
            "w2": sp.ops.gemm(dev, turned(h), d),
            "b2": sp.ops.reduce(dev, d, "sum", 0, keepdims=True),
        }
        loss = sp.ops.reduce(dev, sp.ops.map(dev, "off * off", off=off))
        return float(loss.numpy()) / (BATCH * OUTPUTS), found

    def update(self, gradients: dict[str, sp.Array]) -> None:
        """One step down."""
        for name, g in gradients.items():
            w = self.weights[name]
            stepped = sp.ops.map(self.device, "w - r * g", w=w, r=RATE, g=g, out=w)
            if stepped.fence is not None:
                stepped.fence.wait()

    def weights_now(self) -> Weights:
        """A copy of its weights."""
        return {name: w.numpy().copy() for name, w in self.weights.items()}


def dealt(devices: list[sp.Device], weights: Weights) -> list[Worker]:
    """The batch, dealt to these devices: what is learnt is a sine and a product."""
    x = np.random.default_rng(2).uniform(-1, 1, (BATCH, INPUTS)).astype(np.float32)
    y = np.stack([np.sin(3 * x[:, 0]), x[:, 1] * x[:, 2]], 1).astype(np.float32)
    parts = zip(np.array_split(x, len(devices)), np.array_split(y, len(devices)), strict=True)
    return [Worker(one, weights, *part) for one, part in zip(devices, parts, strict=True)]


def step(ctx: sp.Context, workers: list[Worker]) -> float:
    """All workers take one step together; returns the loss before it."""
    losses, found = zip(*(worker.gradients() for worker in workers), strict=True)
    if len(workers) > 1:
        with ctx.create_mesh([worker.device.uri for worker in workers]) as mesh:
            for name in SHAPES:
                mesh.all_reduce([gradients[name] for gradients in found], op="sum")
    for worker, gradients in zip(workers, found, strict=True):
        worker.update(gradients)
    return float(sum(losses))


def train(
    ctx: sp.Context, devices: list[sp.Device], steps: int, kill: int = 0
) -> tuple[list[float], Weights]:
    """The losses and the weights at the end. The last device dies in step `kill`; 0: none does."""
    weights, losses = began(), list[float]()
    workers = dealt(devices, weights)
    while len(losses) < steps:
        if len(losses) + 1 == kill:
            kill = 0
            sim.apply(Schedule(0, [Fault("job", 3, "unplug")]), devices[-1])
        try:
            losses.append(step(ctx, workers))
        except sp.SparkleError as error:
            left = [worker.device for worker in workers if worker.device.healthy]
            if not left or len(left) == len(workers):
                raise
            print(f"step {len(losses) + 1}: {error}")
            print(f"the batch is dealt to {', '.join(device.uri for device in left)}")
            workers = dealt(left, weights)  # those before this step
        weights = workers[0].weights_now()
    return losses, weights


def whole(text: str) -> int:
    """A number from 0 on."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"expected 0 or more, got {value}")
    return value


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 1 wrong result, 2 usage, 3 no such device",
    )
    usual = ",".join(DEVICES)
    parser.add_argument("-d", "--devices", default=usual, help="URIs separated by commas")
    parser.add_argument("--steps", type=whole, default=30, help="of training (default 30)")
    parser.add_argument(
        "--kill", type=whole, help=f"step in which the last device dies (default {KILL}), 0: never"
    )
    args = parser.parse_args()
    # 20 us and 8 GB/s away from the host
    simulated = {uri: SimDevice(uri, {}, (2e-5, 8e9)) for uri in DEVICES}
    made = SimMachine(simulated, random.Random(1), seed=1)
    with sim.on(made):
        try:
            ctx = sp.init(args.devices.split(","), profile=False)
        except (sp.DeviceNotFound, ValueError) as error:
            print(str(error).partition("\n")[0], file=sys.stderr)
            return 3
        with ctx:
            devices = list(ctx.devices)
            last = devices[-1].uri
            mortal = last.startswith("sim:") and len(devices) > 1
            if args.kill and not mortal:
                parser.error(f"--kill: expected a simulated device at the end of two, got {last}")
            kill = KILL if args.kill is None and mortal else args.kill or 0
            _, want = train(ctx, devices[:1], args.steps)
            losses, got = train(ctx, devices, args.steps, kill)
    for at in range(0, len(losses), 5):
        print(f"step {at + 1}: loss {losses[at]:.4f}")
    off = max(float(np.abs(got[name] - want[name]).max()) for name in SHAPES)
    if off > 1e-3 or (len(losses) > 1 and not losses[-1] < losses[0]):
        print(f"wrong: the weights are off by {off:.2g}, losses {losses}", file=sys.stderr)
        return 1
    print(f"right: the weights are those of one device within {off:.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
