"""How fast the emulated GPU runs shaders on this host: verified first, then timed.

    python benchmarks/emu.py [--json] [--chip gfx1100] [--repeat 5] [--threads 1] [--lenient all]

Lane operations are instructions times active lanes, as the emulator counts them; times are wall
clock from submission to completion, the best and the median of the repeats. On a host that others
use, too, the processor's time tells more.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import numpy as np
from _console import output

from sparkle_drv.testing.emulated_kernels import Kernels
from sparkle_drv.testing.emulated_options import LENIENT
from sparkle_drv.testing.emulator import Gpu, Machine

KERNELS = Path(__file__).parent / "kernels"  # build.sh makes them
ALU_ROUNDS, MOVE_ROUNDS, GROUPS, SIZE = 500, 200, 32, 256
PAGE_DWORDS, SCATTER_GROUPS = 1024, 64
GOALS = {"alu": "350 M lane-ops/s", "moves": "120 M lane-ops/s", "sgemm": "0.12 s", "scatter": "-"}


def alu_oracle(a: np.ndarray) -> np.ndarray:
    """The kernel `alu`, float32 with its fused steps done in double and rounded once."""
    f32, f64 = np.float32, np.float64
    x, y, z, w = (a + f32(k) for k in range(4))
    k = np.arange(a.size, dtype=np.uint32)
    for _ in range(4 * ALU_ROUNDS):
        x = (x.astype(f64) * 0.5 + y).astype(f32)
        y = (y.astype(f64) * 0.25 + z).astype(f32)
        z = z * f32(0.5) + w
        w = w * f32(0.125) + f32(1)
        k = k * np.uint32(1664525) + np.uint32(1013904223)
        k ^= k >> np.uint32(7)
    out: np.ndarray = x + y + z + w + (k & np.uint32(15)).astype(f32)
    return out


def moves_oracle(a: np.ndarray) -> np.ndarray:
    rows = a.reshape(-1, 64)
    out: np.ndarray = rows + rows[:, np.arange(64) * 7 % 64]
    return out.ravel()


def scatter_oracle(s: np.ndarray) -> np.ndarray:
    out = np.zeros_like(s)
    out[::PAGE_DWORDS] = s[::PAGE_DWORDS] + np.uint32(1)
    return out


def workloads() -> dict[str, tuple[list[np.ndarray], np.ndarray, int, int, int]]:
    """name: inputs, expected output, integer argument, groups, threads in a group."""
    r = np.random.default_rng(1)
    a = r.standard_normal(GROUPS * 64).astype(np.float32)
    m = r.integers(0, 1 << 32, GROUPS * 64 * MOVE_ROUNDS, dtype=np.uint32)
    s = r.integers(0, 1 << 32, SCATTER_GROUPS * 64 * PAGE_DWORDS, dtype=np.uint32)
    p, q = (r.integers(-8, 8, (SIZE, SIZE)).astype(np.float32) for _ in range(2))
    return {
        "alu": ([a], alu_oracle(a), ALU_ROUNDS, GROUPS, 64),
        "moves": ([m], moves_oracle(m), MOVE_ROUNDS, GROUPS, 64),
        "scatter": ([s], scatter_oracle(s), PAGE_DWORDS, SCATTER_GROUPS, 64),
        "sgemm": ([p, q], (p @ q).ravel(), SIZE, (SIZE // 64) ** 2, 256),
    }


def measure(chip: str, threads: int, repeat: int, lenient: list[str]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    with (
        Machine([chip], threads=threads, job_limit_s=60, lenient=lenient) as machine,
        machine.open() as node,
        Gpu(node) as gpu,
        Kernels(gpu, chip, KERNELS / f"emu.{chip}.hsaco") as kernels,
    ):
        for name, (inputs, want, number, groups, size) in workloads().items():
            buffers = [gpu.buffer(array.nbytes) for array in [*inputs, want]]
            for array, buffer in zip(inputs, buffers, strict=False):
                buffer.map[: array.nbytes] = array.tobytes()
            times, cpu, before = [], [], machine.lane_ops()
            for attempt in range(repeat + 1):
                start, cpu_start = time.perf_counter(), time.process_time()
                kernels.launch(name, [*buffers, number], groups, size=size, timeout_s=60)
                times.append(time.perf_counter() - start)
                cpu.append(time.process_time() - cpu_start)
                if attempt == 0:
                    got = np.frombuffer(buffers[-1].map, want.dtype)[: want.size]
                    if not np.array_equal(got, want):
                        raise SystemExit(f"{name} on {chip}: wrong result, nothing timed")
                    lane_ops = machine.lane_ops() - before
            timed = times[1:]
            for buffer in buffers:
                buffer.close()
            rows.append(
                {
                    "kernel": name,
                    "chip": chip,
                    "threads": threads,
                    "lenient": lenient,
                    "emulated": True,
                    "lane_ops": lane_ops,
                    "best_s": min(timed),
                    "median_s": statistics.median(timed),
                    "cpu_s": min(cpu[1:]),
                    "mlane_ops_per_s": lane_ops / min(timed) / 1e6,
                    "mlane_ops_per_cpu_s": lane_ops / min(cpu[1:]) / 1e6,
                    "goal": GOALS[name],
                }
            )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--chip", choices=["gfx1036", "gfx1100"], action="append")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="host threads of one dispatch")
    parser.add_argument("--lenient", choices=["all", *sorted(LENIENT)], action="append", default=[])
    args = parser.parse_args()
    lenient = sorted(LENIENT) if "all" in args.lenient else args.lenient
    if args.repeat < 1:
        parser.error(f"--repeat: expected 1 or more, got {args.repeat}")
    rows = [
        row
        for chip in args.chip or ["gfx1036", "gfx1100"]
        for row in measure(chip, args.threads, args.repeat, lenient)
    ]
    if args.json:
        print(json.dumps(rows, indent=2))
        return 0
    for row in rows:
        print(
            f"{row['chip']:8} {row['kernel']:7} best {row['best_s']:.4f} s, "
            f"median {row['median_s']:.4f} s, "
            f"{row['mlane_ops_per_s']:.0f} M lane-ops/s; {row['cpu_s']:.4f} s of CPU, "
            f"{row['mlane_ops_per_cpu_s']:.0f} M a CPU second (goal {row['goal']})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(output.guarded("emu.py", main))
