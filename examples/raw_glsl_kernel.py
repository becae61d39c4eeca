"""A kernel of one's own in GLSL, from the file beside this one: compiled, checked, timed.

    python examples/raw_glsl_kernel.py [-d egl:0] [-n 1000000]

Exit codes: 0 well, 1 a wrong result, 2 usage, 3 no such device.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import sparkle_drv as sp

SHADER = Path(__file__).with_suffix(".comp")
MOST = (
    64 * 65535
)  # OpenGL promises so many groups of a launch, and the shader has 64 threads in one
EPS = float(np.finfo(np.float32).eps)


def smoothed(x: NDArray[np.float32]) -> NDArray[np.float64]:
    """What the kernel should compute, in float64 and by other means."""
    padded = np.pad(x.astype(np.float64), 1, mode="edge")
    return 0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:]


def run(dev: sp.Device, n: int) -> int:
    x = np.random.default_rng(1).standard_normal(n, np.float32)
    # The signature is ours to give: GLSL does not tell in which order arguments come. A shader that
    # does not compile, or does not fit it, is an ImageError with the driver's words and the line.
    kernel = dev.kernel(image=SHADER, entry="main", args="f32* y, f32* x, u32 n")
    source, result = dev.array(x), dev.empty(n, np.float32)
    groups = -(-n // kernel.group_size[0])  # the group's size is the shader's own

    # First the check. Nothing is timed before the result was right.
    queue = dev.queue(timing=True)
    queue.launch(kernel, result, source, n, groups=groups).wait(timeout_s=60)
    error = float(np.abs(result.numpy() - smoothed(x)).max())
    limit = 4 * EPS * float(np.abs(x).max())  # three products and two sums, each rounded once
    if not error <= limit:
        print(f"wrong result: off by {error:.1e}, {limit:.1e} allowed", file=sys.stderr)
        return 1

    # A fence of a timing queue knows the device's own time, from its first command to its last.
    times = []
    for _ in range(20):
        fence = queue.launch(kernel, result, source, n, groups=groups).wait(timeout_s=60)
        times.append(fence.time_ns)
    median = float(np.median(times))
    print(f"{dev.uri} ({dev.info.name}): {n} elements, error {error:.1e} of {limit:.1e} allowed")
    print(f"median of 20: {median / 1e3:.1f} us of device time, {8 * n / median:.2f} GB/s")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 1 a wrong result, 2 usage, 3 no such device",
    )
    parser.add_argument("-d", "--device", default="egl:0", help="one that takes GLSL")
    parser.add_argument("-n", type=int, default=1_000_000, help="elements (default a million)")
    args = parser.parse_args()
    if not 1 <= args.n <= MOST:
        parser.error(f"-n: expected 1 to {MOST}, got {args.n}")
    try:
        with sp.open(args.device) as dev:
            return run(dev, args.n)
    except sp.DeviceNotFound as error:
        print(f"{args.device}: {error}", file=sys.stderr)
        return 3
    except sp.ImageError as error:
        print(f"{args.device} does not take this kernel: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
