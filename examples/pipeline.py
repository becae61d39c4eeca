"""A stream of frames through three slots: while the device works on one frame, the host makes the
next and checks the one before.

    python examples/pipeline.py [-d cpu] [--frames 60] [--depth 3]

Exit codes: 0 well, 1 a wrong result, 2 usage, 3 no such device.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sparkle_drv as sp

Frame = NDArray[Any]
N = 256  # a frame is N x N; each is multiplied with the same weights


class Slot:
    """All that one frame needs. Slots share nothing that is written, so they cannot disturb one
    another; that is what lets their work overlap.
    """

    def __init__(self, dev: sp.Device, gemm: sp.Kernel, weights: sp.Array) -> None:
        # HOST memory can be mapped while the device uses other buffers; DEVICE memory is fast.
        self.host_in, self.host_out = (dev.buffer(4 * N * N, sp.Memory.HOST) for _ in range(2))
        x, y = (dev.buffer(4 * N * N) for _ in range(2))
        # Recorded once: in, multiply, out. Commands of one list run in order. The numbers are
        # m, n, k, the strides of both operands, the row length of the result, no activation.
        self.commands = sp.Commands().copy(x, self.host_in)
        self.commands.dispatch(gemm, y, x, weights, None, N, N, N, N, 1, N, 1, N, 0)
        self.commands.copy(self.host_out, y)


def make_frame(number: int) -> Frame:
    """The host's work before: a synthetic picture that differs from frame to frame."""
    x, y = np.meshgrid(np.arange(N), np.arange(N))
    frame: Frame = np.sin(0.01 * x * (1 + number % 7) + 0.02 * y + number)
    return frame.astype(np.float32)


def is_right(got: Frame, frame: Frame, weights: Frame) -> bool:
    """The host's work after: Freivalds' check. (frame @ weights) @ v costs no second product.

    The limit is far above float32's rounding in sums of N terms, far below one wrong element.
    """
    v = np.cos(np.arange(N))
    want = frame.astype(np.float64) @ (weights.astype(np.float64) @ v)
    return bool(np.allclose(got.astype(np.float64) @ v, want, rtol=0, atol=1e-4 * N))


def stream(dev: sp.Device, frames: int, depth: int) -> int:
    host_weights = np.random.default_rng(1).standard_normal((N, N), np.float32)
    weights = dev.array(host_weights)
    gemm = sp.ops.gemm.plan(dev, N, N, N).kernel
    host_s, wrong, fences = 0.0, 0, []

    def put(slot: Slot, number: int) -> None:
        with slot.host_in.map() as view:
            np.copyto(np.frombuffer(view, np.float32).reshape(N, N), make_frame(number))

    def take(slot: Slot, number: int) -> bool:
        with slot.host_out.map() as view:
            got = np.frombuffer(view, np.float32).reshape(N, N).copy()
        return is_right(got, make_frame(number), host_weights)

    # A queue of our own, because a timing queue also tells how long the device was at work.
    with (
        dev.queue(timing=True) as queue,
        dev.pipeline(depth, lambda: Slot(dev, gemm, weights), queue) as pipe,
    ):
        start = time.perf_counter()
        for number in range(frames + depth):
            # Blocks only while all slots are in flight, and only for the one that it returns.
            slot = pipe.acquire(timeout_s=60)
            begun = time.perf_counter()
            if number >= depth:  # this slot comes round: its last frame is done
                wrong += not take(slot, number - depth)
            if number < frames:
                put(slot, number)
            host_s += time.perf_counter() - begun
            if number < frames:
                fences.append(pipe.submit(slot, slot.commands))
        wall_s = time.perf_counter() - start
        device_s = sum(fence.time_ns for fence in fences) / 1e9

    if wrong:
        print(f"{dev.uri}: {wrong} of {frames} frames are wrong", file=sys.stderr)
        return 1
    # Host and device together were longer at work than the clock on the wall went on: the
    # difference is what they did at the same time.
    both_s = max(0.0, host_s + device_s - wall_s)
    print(f"{dev.uri} ({dev.info.name}): {frames} frames through {depth} slots, all right")
    print(f"host {1e3 * host_s:.1f} ms, device {1e3 * device_s:.1f} ms, both in {1e3 * wall_s:.1f}")
    share = both_s / min(host_s, device_s)
    print(f"overlapped: {1e3 * both_s:.1f} ms, {share:.0%} of the shorter one")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n\n")[0],
        epilog="exit codes: 0 well, 1 a wrong result, 2 usage, 3 no such device",
    )
    parser.add_argument("-d", "--device", default="cpu", help="a URI (default cpu)")
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--depth", type=int, default=3, help="slots (default 3)")
    args = parser.parse_args()
    if not 1 <= args.depth <= 64 or args.frames < 1:
        parser.error(
            f"expected --depth from 1 to 64 and --frames of 1 or more, "
            f"got {args.depth} and {args.frames}"
        )
    try:
        with sp.open(args.device) as dev:
            return stream(dev, args.frames, args.depth)
    except sp.DeviceNotFound as error:
        print(f"{args.device}: {error}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
