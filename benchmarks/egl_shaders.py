"""How much does a tile plan bring on an OpenGL device? Our generated shaders against naive ones.

Both compute the same matrix product or convolution on the same device in the same process. One is
the shader that ops would run. The other is written by hand in the plain way: groups of 8 x 8, one
thread per output, sums in a register. Both are checked against float64 numpy first. Then they are
timed in turn by the device's clock, so that a busy moment affects both. The result is the ratio of
the medians with its 95 % bootstrap interval.

    python benchmarks/egl_shaders.py [-d egl:0] [--samples 15] [--json FILE]

Exit codes: 0 both are at least 8 times as fast, 1 one is not or is wrong, 2 usage, 3 no such
device.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import numpy as np
from _bench.rows import stats
from _console import output

import sparkle_drv as sp
from sparkle_drv import ops
from sparkle_drv.ops import ref

LEAST_RATIO = 8.0
GEMM = 512
CHANNELS, IMAGE, TAPS = 32, 64, 3

_HEAD = """\
#version 430 core
layout(local_size_x = 8, local_size_y = 8) in;
layout(std430, binding = 0) writeonly buffer Out { float y[]; };
"""

NAIVE_GEMM = (
    _HEAD
    + """\
layout(std430, binding = 1) readonly buffer A { float a[]; };
layout(std430, binding = 2) readonly buffer B { float b[]; };
layout(location = 0) uniform uint n;
void main()
{
    uint i = gl_GlobalInvocationID.y, j = gl_GlobalInvocationID.x;
    if (i >= n || j >= n)
        return;
    float sum = 0.0;
    for (uint p = 0u; p < n; p++)
        sum += a[i * n + p] * b[p * n + j];
    y[i * n + j] = sum;
}
"""
)

# 3 x 3 taps, stride 1, a border of one pixel. A thread has one pixel of one output channel.
NAIVE_CONV2D = (
    _HEAD
    + """\
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) readonly buffer W { float w[]; };
layout(location = 0) uniform uint channels;
layout(location = 1) uniform uint size;
void main()
{
    uvec3 at = gl_GlobalInvocationID;
    if (at.x >= size || at.y >= size)
        return;
    float sum = 0.0;
    for (uint c = 0u; c < channels; c++)
        for (uint i = 0u; i < 3u; i++)
            for (uint j = 0u; j < 3u; j++) {
                uint row = at.y + i - 1u, column = at.x + j - 1u; /* -1 wraps: beyond size */
                if (row < size && column < size)
                    sum += w[((at.z * channels + c) * 3u + i) * 3u + j]
                         * x[(c * size + row) * size + column];
            }
    y[(at.z * size + at.y) * size + at.x] = sum;
}
"""
)


@dataclass(frozen=True)
class Race:
    """Two shaders that compute the same result into `out`, and the expected result, `want`."""

    name: str
    out: sp.Array
    want: Any
    tolerance: float
    plan: sp.TilePlan | None
    ours: Callable[[], int]
    naive: Callable[[], int]


@dataclass(frozen=True)
class Result:
    """The result of a race: the median seconds of ours and of the naive shader, and the ratio
    naive / ours with its 95 % interval.
    """

    name: str
    device: str
    ours_s: float
    naive_s: float
    ratio: float
    low: float
    high: float
    errors: dict[str, float]
    plan: dict[str, Any] | None


def gemm(dev: sp.Device, queue: sp.Queue, rng: np.random.Generator) -> Race:
    a, b = rng.standard_normal((2, GEMM, GEMM)).astype(np.float32)
    out, on_a, on_b = dev.empty(a.shape, a.dtype), dev.array(a), dev.array(b)
    plan = ops.gemm.plan(dev, GEMM, GEMM, GEMM)
    naive = dev.kernel(
        image=NAIVE_GEMM.encode(), entry="main", args="f32* f32* f32* u32", group_size=(8, 8, 1)
    )
    groups = (-(-GEMM // 8), -(-GEMM // 8), 1)
    sizes = (GEMM, GEMM, GEMM, GEMM, 1, GEMM, 1, GEMM, 0)  # m n k, strides of a, b and c, no act
    return Race(
        f"gemm_f32 {GEMM} x {GEMM} x {GEMM}",
        out,
        a.astype(np.float64) @ b,
        ref.tolerance("gemm", np.float32, GEMM),
        plan.tile,
        queue.prepare(plan.kernel, out, on_a, on_b, None, *sizes),
        queue.prepare(naive, out, on_a, on_b, GEMM, groups=groups),
    )


def conv2d(dev: sp.Device, queue: sp.Queue, rng: np.random.Generator) -> Race:
    x = rng.standard_normal((1, CHANNELS, IMAGE, IMAGE)).astype(np.float32)
    w = rng.standard_normal((CHANNELS, CHANNELS, TAPS, TAPS)).astype(np.float32)
    out, on_x = dev.empty(x.shape, x.dtype), dev.array(x)
    plan = ops.conv2d.plan(dev, x.shape, w, padding=1)
    naive = dev.kernel(
        image=NAIVE_CONV2D.encode(),
        entry="main",
        args="f32* f32* f32* u32 u32",
        group_size=(8, 8, 1),
    )
    groups = (-(-IMAGE // 8), -(-IMAGE // 8), CHANNELS)
    # n c h w, oc kh kw, oh ow, strides, padding, dilation, groups, NCHW, no activation
    sizes = (1, CHANNELS, IMAGE, IMAGE, CHANNELS, TAPS, TAPS, IMAGE, IMAGE, 1, 1, 1, 1, 1, 1, 1)
    return Race(
        f"conv2d_f32 {TAPS} x {TAPS}, {CHANNELS} to {CHANNELS} channels at {IMAGE} x {IMAGE}",
        out,
        ref.conv2d(x, w, None, padding=((1, 1), (1, 1))),
        ref.tolerance("conv2d", np.float32, CHANNELS * TAPS * TAPS),
        plan.tile,
        queue.prepare(plan.kernel, out, on_x, plan.w, None, *sizes, 0, 0),
        queue.prepare(naive, out, on_x, plan.w, CHANNELS, IMAGE, groups=groups),
    )


def verify(race: Race, queue: sp.Queue) -> dict[str, float]:
    """Returns the worst error of each shader, relative to the rms of the output.

    Raises ValueError for a wrong result.
    """
    errors = {}
    for name, go in (("ours", race.ours), ("naive", race.naive)):
        race.out.buffer.write(np.full(race.out.shape, np.nan, np.float32))
        queue.fence(go()).wait(120)
        miss = ref.mismatch(race.out.numpy(), race.want, race.tolerance)
        if miss.index is not None:
            raise ValueError(f"{race.name}, {name}: {miss}")
        errors[name] = float(miss.error)
    return errors


def run(race: Race, queue: sp.Queue, samples: int, seed: int) -> Result:
    errors = verify(race, queue)
    times: dict[str, list[float]] = {"ours": [], "naive": []}
    for _ in range(samples):
        for name, go in (("ours", race.ours), ("naive", race.naive)):
            fence = queue.fence(go())
            fence.wait(120)
            times[name].append(fence.time_ns * 1e-9)
    ours, naive = (stats.summarize(times[name]).median for name in ("ours", "naive"))
    low, high = stats.ratio_interval(times["ours"], times["naive"], seed)
    plan = asdict(race.plan) if race.plan else None
    uri = race.out.buffer.device.uri
    return Result(race.name, uri, ours, naive, naive / ours, low, high, errors, plan)


def race(uri: str, samples: int, seed: int) -> list[Result]:
    """Runs both races on a device, of gemm and of conv2d, and prints each result at once. Raises
    ValueError for a wrong result.
    """
    rng = np.random.default_rng(seed)
    results = []
    with sp.open(uri) as dev, dev.queue(timing=True) as queue:
        for make in (gemm, conv2d):
            found = run(make(dev, queue, rng), queue, samples, seed)
            results.append(found)
            print(
                f"{found.device} {found.name}: naive {found.naive_s * 1e3:.1f} ms, "
                f"ours {found.ours_s * 1e3:.2f} ms, {found.ratio:.1f} times as fast "
                f"[{found.low:.1f}, {found.high:.1f}]"
            )
    return results


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("-d", "--device", default="egl:0", metavar="DEV", help="default egl:0")
    parser.add_argument("--samples", type=int, default=15, metavar="N", help="of each (default 15)")
    parser.add_argument("--seed", type=int, default=1, help="of the inputs (default 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    args = parser.parse_args(argv)
    if args.samples < 1:
        parser.error(f"--samples: expected 1 or more, got {args.samples}")
    try:
        results = race(args.device, args.samples, args.seed)
    except sp.DeviceNotFound as error:
        print(f"egl_shaders.py: {error}", file=sys.stderr)
        return 3
    except ValueError as error:
        print(f"egl_shaders.py: {error}", file=sys.stderr)
        return 1
    if args.json:
        document = {"seed": args.seed, "results": [asdict(result) for result in results]}
        if not output.save("egl_shaders.py", args.json, json.dumps(document, indent=1) + "\n"):
            return 1
    return 0 if all(result.low >= LEAST_RATIO for result in results) else 1


if __name__ == "__main__":
    sys.exit(output.guarded("egl_shaders.py", lambda: main(sys.argv[1:])))
