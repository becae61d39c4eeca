"""Do two runtimes with threads of their own stall each other in one process?

    python benchmarks/pool_stalls.py [--threads N] [--size N] [--calls N] [--json FILE]

The script times a gemm of the cpu device on N threads (default: all), call by call, in these
surroundings:

    alone         nothing else
    omp between   an OpenMP region before each call, in the same thread: its threads may still spin
    omp passive   the same with OMP_WAIT_POLICY=passive: its threads sleep
    omp active    the same with OMP_WAIT_POLICY=active: its threads never stop spinning
    omp beside    OpenMP regions in another thread, all the time
    pool between  the same gemm on a second cpu device before each call
    pool beside   gemms on a second cpu device in another thread, all the time
    one thread    the gemm on one thread, after an OpenMP region

The OpenMP region (100 us of work) is timed, too: alone and after our gemm. The OpenMP program is
_cpu_peers/pool_stalls.c, compiled with gcc -fopenmp. Each surrounding runs in a process of its own.
A stall shows in the high percentiles: a scheduler's time slice is some 3 ms. The product is
compared with numpy's before anything is timed. The table is for people: no time makes the script
fail.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import numpy as np
from _console import output

import sparkle_drv as sp

TEAM = Path(__file__).resolve().parents[1] / "benchmarks/_cpu_peers/pool_stalls.c"
PERCENTILES = (50, 90, 99, 99.9, 100)
REGION_NS = 100_000
# key: what runs beside the timed gemm; value: OMP_WAIT_POLICY of the measuring process, "": unset
SURROUNDINGS = {
    "alone": "",
    "omp between": "",
    "omp passive": "passive",
    "omp active": "active",
    "omp beside": "",
    "pool between": "",
    "pool beside": "",
    "one thread": "",
    "region alone": "",
    "region after gemm": "",
}


def main() -> int:
    top = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0], epilog="exit codes: 0 well, 1 wrong result"
    )
    top.add_argument("--threads", type=int, help="of the cpu device; default: all")
    top.add_argument("--size", type=int, default=256, help="of the square gemm (256)")
    top.add_argument("--calls", type=int, default=1000, help="timed in each surrounding (1000)")
    top.add_argument("--json", metavar="FILE", help="also write the percentiles here")
    top.add_argument("--only", action="append", choices=SURROUNDINGS, help="may be repeated")
    top.add_argument("--child", help=argparse.SUPPRESS)
    top.add_argument("--team", help=argparse.SUPPRESS)
    args = top.parse_args()
    if args.child:
        print(json.dumps(measured(args.child, args)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return report(args, compiled(Path(folder)))


def compiled(folder: Path) -> Path | None:
    """Compiles the OpenMP library. Returns its path, or None if gcc cannot make one."""
    library = folder / "libteam.so"
    command = ["gcc", "-O2", "-fopenmp", "-shared", "-fPIC", "-o", str(library)]
    try:
        done = subprocess.run([*command, str(TEAM)], check=False)
    except FileNotFoundError:
        return None
    return library if done.returncode == 0 else None


def report(args: argparse.Namespace, team: Path | None) -> int:
    rows = {}
    print(f"{'us':18}{'median':>9}{'p90':>9}{'p99':>9}{'p99.9':>9}{'most':>9}")
    for name, policy in SURROUNDINGS.items():
        if args.only and name not in args.only:
            continue
        if team is None and ("omp" in name or "region" in name or name == "one thread"):
            print(f"{name:18}  not measured: gcc -fopenmp did not make the library")
            continue
        env = {key: value for key, value in os.environ.items() if not key.startswith("OMP_")}
        command = [sys.executable, __file__, *sys.argv[1:], "--child", name, "--team", str(team)]
        done = subprocess.run(
            command,
            env={**env, **({"OMP_WAIT_POLICY": policy} if policy else {})},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            return 1
        rows[name] = json.loads(done.stdout)
        print(f"{name:18}" + "".join(f"{us:9.1f}" for us in rows[name]), flush=True)
    if args.json:
        percentiles = [f"p{p}" for p in PERCENTILES]
        table = {name: dict(zip(percentiles, row, strict=True)) for name, row in rows.items()}
        text = json.dumps({"unit": "us", "rows": table}, indent=1) + "\n"
        return 0 if output.save("pool_stalls.py", args.json, text) else 1
    return 0


class Gemm:
    """A product on its own cpu device. The result is checked once."""

    def __init__(self, size: int, threads: int | None) -> None:
        rng = np.random.default_rng(1)
        self.a, self.b = rng.random((2, size, size), dtype=np.float32)
        self.out = np.empty_like(self.a)
        self.dev = sp.open("cpu", threads=threads)
        self()
        if not np.allclose(self.out, self.a.astype(float) @ self.b, rtol=1e-4):
            sys.exit("the product is wrong")

    def __call__(self) -> None:
        sp.ops.gemm(self.dev, self.a, self.b, self.out)


def measured(name: str, args: argparse.Namespace) -> list[float]:
    """Measures calls in one of SURROUNDINGS. Returns the percentiles of their times, in us."""
    ours = Gemm(args.size, 1 if name == "one thread" else args.threads)
    uses_team = "omp" in name or "region" in name or name == "one thread"
    team: Any = ctypes.CDLL(args.team) if uses_team else None
    before: Callable[[], None] | None = None
    beside: Callable[[], None] | None = None
    timed: Callable[[], None] = ours
    if team:
        team.team_region.argtypes, team.team_region.restype = [ctypes.c_int64], ctypes.c_int64

    def region() -> None:
        team.team_region(REGION_NS)

    if name == "omp beside":
        beside = region
    elif name == "region after gemm":
        before, timed = ours, region
    elif name == "region alone":
        timed = region
    elif team:
        before = region
    elif name.startswith("pool"):
        other = Gemm(args.size, args.threads)
        before, beside = (other, None) if name == "pool between" else (None, other)
    return percentiles(timed, before, beside, args.calls)


def percentiles(
    timed: Callable[[], None],
    before: Callable[[], None] | None,
    beside: Callable[[], None] | None,
    calls: int,
) -> list[float]:
    over = threading.Event()

    def repeat() -> None:
        while beside and not over.is_set():
            beside()

    thread = threading.Thread(target=repeat) if beside else None
    if thread:
        thread.start()
    times = []
    for i in range(calls + 50):
        if before:
            before()
        begin = time.perf_counter_ns()
        timed()
        if i >= 50:
            times.append((time.perf_counter_ns() - begin) / 1e3)
    over.set()
    if thread:
        thread.join()
    return [round(float(p), 1) for p in np.percentile(times, PERCENTILES)]


if __name__ == "__main__":
    sys.exit(output.guarded("pool_stalls.py", main))
