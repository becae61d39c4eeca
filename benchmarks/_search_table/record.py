"""Records the table that the tests of `--search` search: every point of a tiled gemm, timed.

    python benchmarks/_search_table/record.py TABLE.json [SECONDS]

Each point is compiled by cc, and its result is compared with numpy. Points are then timed in
rounds. A round takes one sample of every point in a random order, so that a busy moment affects all
alike. The table has the median of the faster half of each point's samples. The program takes about
six minutes. The tests of `--search` read the table.
"""

from __future__ import annotations

import ctypes
import datetime
import itertools
import json
import platform
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

N = 192
PARAMETERS = {
    "BM": (12, 24, 48, 96, 192),
    "BN": (48, 192),
    "BK": (48, 192),
    "UM": (1, 2, 4, 6, 12),
    "VEC": (1, 2, 4, 8, 16),
}
SAMPLE_NS = 500_000
FEWEST_ROUNDS = 12


def compiled(point: tuple[int, ...], folder: Path) -> ctypes.CDLL:
    """Compiles the tiled gemm with the parameters `point` (a value of each of PARAMETERS). Loads
    and returns the library.
    """
    library = folder / ("_".join(map(str, point)) + ".so")
    macros = [f"-D{name}={value}" for name, value in zip(PARAMETERS, point, strict=True)]
    options = ["-O3", "-march=native", "-shared", "-fPIC", *macros, "-o", str(library)]
    subprocess.run(["cc", str(Path(__file__).with_name("gemm.c")), *options], check=True)
    return ctypes.CDLL(str(library))


def sample(kernel: ctypes.CDLL, arrays: list[ctypes.c_void_p]) -> float:
    """Returns the ns per call, after one call that brings the arrays into the cache."""
    start = time.perf_counter_ns()
    kernel.run(*arrays)
    calls = max(1, SAMPLE_NS // (time.perf_counter_ns() - start))
    start = time.perf_counter_ns()
    for _ in range(calls):
        kernel.run(*arrays)
    return (time.perf_counter_ns() - start) / calls


def cpu() -> str:
    """Returns the processor's name, if Linux reports it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def main() -> None:
    out, seconds = Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    rng = np.random.default_rng(1)
    a, b, c = (rng.random((N, N), dtype=np.float32) for _ in range(3))
    arrays = [ctypes.c_void_p(array.ctypes.data) for array in (c, a, b)]
    points = list(itertools.product(*PARAMETERS.values()))
    samples: list[list[float]] = [[] for _ in points]
    with tempfile.TemporaryDirectory() as folder:
        kernels = [compiled(point, Path(folder)) for point in points]
        for kernel in kernels:
            kernel.run(*arrays)
            np.testing.assert_allclose(c, a @ b, rtol=1e-4)
        start = time.monotonic()
        while len(samples[0]) < FEWEST_ROUNDS or time.monotonic() < start + seconds:
            for at in random.sample(range(len(points)), len(points)):
                samples[at].append(sample(kernels[at], arrays))
    table = {
        "what": f"gemm of {N}, f32, one thread; ns a call",
        "machine": cpu(),
        "compiler": subprocess.check_output(["cc", "--version"], text=True).splitlines()[0],
        "date": datetime.date.today().isoformat(),
        "rounds": len(samples[0]),
        "parameters": {name: list(values) for name, values in PARAMETERS.items()},
        "ns": [round(float(np.median(np.sort(s)[: (len(s) + 1) // 2]))) for s in samples],
    }
    out.write_text(json.dumps(table) + "\n")


if __name__ == "__main__":
    main()
