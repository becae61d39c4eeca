"""How fast the emulated GPU runs shaders on this host: verified first, then timed.

    python benchmarks/emu.py [--json] [--chip gfx1100] [--repeat 15] [--threads 1]

Strict and lenient machines take turns, so that a disturbance of the host affects both. Lane
operations are instructions times active lanes, as the emulator counts them. Times are wall-clock
time from submission to completion: the median, and the best, which shows what the host can do. On a
host with other users the CPU time says more. The printed ratio divides the median CPU time on
strict machines by that on lenient ones. It has a 95 % bootstrap interval.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import numpy as np
from _bench.rows import stats
from _console import output

from sparkle_drv.testing.emulated_kernels import CardKernels
from sparkle_drv.testing.emulated_options import LENIENT
from sparkle_drv.testing.emulator import EmulatedGpu, Machine

KERNELS = Path(__file__).parent / "kernels"  # folder of the binaries that build.sh makes
ALU_ROUNDS, MOVE_ROUNDS, GROUPS, SIZE = 500, 200, 32, 256
PAGE_DWORDS, SCATTER_GROUPS = 1024, 64
GOALS = {
    "alu": "1000 M lane-ops/s on two threads",
    "moves": "120 M lane-ops/s",
    "sgemm": "0.12 s",
    "scatter": "-",
}
MODES = {"strict": [], "lenient": sorted(LENIENT)}


def alu_oracle(a: np.ndarray) -> np.ndarray:
    """Computes in float32 what the kernel `alu` computes. Where the kernel uses a fused
    multiply-add, the step is computed in float64 and rounded once.
    """
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
    """Returns by name: inputs, expected output, integer argument, groups, threads per group."""
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


class Rig:
    """An emulated machine on which one kernel after another is loaded."""

    def __init__(self, chip: str, threads: int, lenient: list[str], stack: ExitStack) -> None:
        machine = Machine([chip], threads=threads, job_limit_s=60, lenient=lenient)
        self.machine = stack.enter_context(machine)
        self.gpu = stack.enter_context(EmulatedGpu(stack.enter_context(machine.open())))
        code = KERNELS / f"emu.{chip}.hsaco"
        self.kernels = stack.enter_context(CardKernels(self.gpu, chip, code))

    def load(self, name: str) -> int:
        """Loads a kernel and checks its result. Returns the number of lane operations
        (instructions times active lanes) of one launch.
        """
        self.name = name
        inputs, want, self.number, self.groups, self.size = workloads()[name]
        self.buffers = [self.gpu.buffer(array.nbytes) for array in [*inputs, want]]
        for array, buffer in zip(inputs, self.buffers, strict=False):
            buffer.map[: array.nbytes] = array.tobytes()
        before = self.machine.lane_ops()
        self.launch()
        got = np.frombuffer(self.buffers[-1].map, want.dtype)[: want.size]
        if not np.array_equal(got, want):
            raise SystemExit(f"{name}: the result is wrong; nothing is timed")
        return int(self.machine.lane_ops() - before)

    def launch(self) -> tuple[float, float]:
        """Launches once. Returns the seconds of wall-clock time and of CPU time."""
        start, cpu = time.perf_counter(), time.process_time()
        buffers, how = self.buffers, {"size": self.size, "timeout_s": 60}
        self.kernels.launch(self.name, [*buffers, self.number], self.groups, **how)
        return time.perf_counter() - start, time.process_time() - cpu

    def unload(self) -> None:
        for buffer in self.buffers:
            buffer.close()


def measure(chip: str, threads: int, repeat: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    with ExitStack() as stack:
        rigs = {m: Rig(chip, threads, list(left), stack) for m, left in MODES.items()}
        for name in GOALS:
            lane_ops = {mode: rig.load(name) for mode, rig in rigs.items()}
            took: dict[str, list[tuple[float, float]]] = {mode: [] for mode in rigs}
            for _ in range(repeat):
                for mode, rig in rigs.items():
                    took[mode].append(rig.launch())
            cpu = {mode: [used for _, used in times] for mode, times in took.items()}
            low, high = stats.ratio_interval(cpu["lenient"], cpu["strict"])
            for mode, rig in rigs.items():
                wall = [seconds for seconds, _ in took[mode]]
                rows.append(
                    {
                        "kernel": name,
                        "chip": chip,
                        "threads": threads,
                        "mode": mode,
                        "emulated": True,
                        "lane_ops": lane_ops[mode],
                        "best_s": min(wall),
                        "median_s": statistics.median(wall),
                        "cpu_s": statistics.median(cpu[mode]),
                        "mlane_ops_per_s": lane_ops[mode] / min(wall) / 1e6,
                        "mlane_ops_per_cpu_s": lane_ops[mode] / statistics.median(cpu[mode]) / 1e6,
                        "strict_to_lenient": statistics.median(cpu["strict"])
                        / statistics.median(cpu["lenient"]),
                        "interval": [low, high],
                        "goal": GOALS[name],
                    }
                )
                rig.unload()
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--chip", choices=["gfx1036", "gfx1100"], action="append")
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1, help="host threads of one dispatch")
    args = parser.parse_args()
    if args.repeat < 2:
        parser.error(f"--repeat: expected 2 or more, got {args.repeat}")
    rows = [
        row
        for chip in args.chip or ["gfx1036", "gfx1100"]
        for row in measure(chip, args.threads, args.repeat)
    ]
    if args.json:
        print(json.dumps(rows, indent=2))
        return 0
    for row in rows:
        print(
            f"{row['chip']:8} {row['kernel']:7} {row['mode']:7} best {row['best_s']:.4f} s, "
            f"median {row['median_s']:.4f} s, "
            f"{row['mlane_ops_per_s']:.0f} M lane-ops/s; {row['cpu_s']:.4f} s of CPU, "
            f"{row['mlane_ops_per_cpu_s']:.0f} M a CPU second (goal {row['goal']})"
        )
        if row["mode"] == "lenient":
            low, high = cast("list[float]", row["interval"])
            ratio = f"{row['strict_to_lenient']:.2f} ({low:.2f} to {high:.2f})"
            print(f"{'':16} strict to lenient {ratio}, goal 3")
    return 0


if __name__ == "__main__":
    sys.exit(output.guarded("emu.py", main))
