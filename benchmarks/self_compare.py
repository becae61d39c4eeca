"""How often is `bench.py compare` wrong? A kernel is measured against itself, and against one that
does 15 % more work, each time in a process of its own and beside busy loops.

    python benchmarks/self_compare.py                  # 100 comparisons with itself, 20 planted
    python benchmarks/self_compare.py --load 0         # on the machine as it is
    python benchmarks/self_compare.py --against        # 5 % planted into a build, against.py

Kernels: one of the user, bound by arithmetic and compiled here with cc, whose slow form computes a
share of its elements twice; and a copy in a cache and a product of matrices as rows that nothing was
planted in. Exit codes: 0 the goals hold, 1 they do not, 2 usage.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from _hop import hop

if "sparkle_drv" not in sys.modules:  # imported by a test: there is nowhere to go
    hop()

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence

from _bench.rows import compare, results
from _console import output
from _console.problems import FAILED, OK, USAGE, UsageError

ROOT = Path(__file__).resolve().parents[1]
BENCH = str(ROOT / "tools" / "bench.py")
RUN_S = 120.0
PLANTED = 0.15
SOURCE = r"""
#include <stdint.h>
struct args { float *y; const float *x; uint32_t n; };
static void chain(float *y, const float *x, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i + 16 <= end; i += 16) {
        float v[16];
        for (int l = 0; l < 16; l++) v[l] = x[i + l];
        for (int s = 0; s < 64; s++)
            for (int l = 0; l < 16; l++) v[l] = v[l] * 0.5f + x[i + l];
        for (int l = 0; l < 16; l++) y[i + l] = v[l];
    }
}
void work(const void *p, const uint32_t group[3], const uint32_t size[3])
{
    const struct args *const a = p;
    const uint32_t begin = group[0] * size[0], end = begin + size[0] < a->n ? begin + size[0] : a->n;
    chain(a->y, a->x, begin, end);
    __asm__ volatile("" : : : "memory");
    chain(a->y, a->x, begin, begin + (uint32_t)((end - begin) * EXTRA) / 16 * 16);
}
"""
REFERENCE = """
def work(x, n):
    v = x
    for _ in range(64):
        v = v * 0.5 + x
    return v
"""
WORDS = (
    *("--arg", "out:f32[N]", "--arg", "in:f32[N]", "--arg", "u32=N", "-D", "N=64K"),
    *("--groups", "N/4096", "--group-size", "4096", "--tolerance", "1e-5"),
)


def compiled(folder: Path, extra: float) -> Path:
    """A folder of its own with work.so and its reference. Raises UsageError."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise UsageError("expected a C compiler called cc on this machine")
    folder.mkdir()
    (folder / "work.c").write_text(SOURCE)
    (folder / "reference.py").write_text(REFERENCE)
    words = [compiler, "-O3", "-shared", "-fPIC", f"-DEXTRA={extra}", "work.c", "-o", "work.so"]
    subprocess.run(words, cwd=folder, check=True)
    return folder


@contextlib.contextmanager
def load(loops: int) -> Iterator[None]:
    """Beside so many busy loops."""
    spin = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(spin) for _ in range(loops)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def measured(where: Path, out: Path) -> Path:
    """A results file of one process for the user's kernel."""
    words = ["kernel", "work.so:work", *WORDS, "--ref", "reference.py:work"]
    command = [sys.executable, BENCH, *words, "--quick", "--json", str(out)]
    subprocess.run(
        command, cwd=where, check=True, timeout=RUN_S, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return out
