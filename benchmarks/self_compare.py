"""How often are `bench.py compare` and against.py wrong? This script lets them compare kernels
with themselves and with a slower form, while busy loops load the machine.

    python benchmarks/self_compare.py                # compare: itself 100 times, slow form 20 times
    python benchmarks/self_compare.py --against 20   # against.py: itself and slow form, each 20
    python benchmarks/self_compare.py --load 0       # on the machine as it is

`bench.py compare`: each results file comes from its own process. The kernel is compiled with cc by
this script; its slow form computes 15 % of its elements twice. `copy_f32` in a cache and `gemm_f32`
are compared with themselves only. against.py: both builds are this checkout; the slow build spins
for 5 % of each block of calls.

Exit codes: 0 the goals hold, 1 they do not, 2 usage.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from _reexec import reexec

if "sparkle_drv" not in sys.modules:  # a test that imports this file must not restart Python
    reexec()

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence

import against
from _bench.rows import compare, results
from _console import output
from _console.problems import FAILED, OK, USAGE, UsageError
from _cpu_peers import OURS, measure

ROOT = Path(__file__).resolve().parents[1]
BENCH = str(ROOT / "tools" / "bench.py")
RUN_S = 120.0
PLANTED, PLANTED_BUILD = 0.15, 0.05
MOST_WRONG, LEAST_FOUND = 0.01, 0.95
CASE, ROUNDS, CASE_S = "gemm f32 256x256x256", 30, 4.0
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
    const uint32_t begin = group[0] * size[0], last = begin + size[0];
    const uint32_t end = last < a->n ? last : a->n;
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
    """Makes a folder with work.so and its reference. The kernel computes the share `extra` of its
    elements twice. Raises UsageError if there is no C compiler named cc.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise UsageError("expected a C compiler named cc on this machine, found none")
    folder.mkdir()
    (folder / "work.c").write_text(SOURCE)
    (folder / "reference.py").write_text(REFERENCE)
    words = [compiler, "-O3", "-shared", "-fPIC", f"-DEXTRA={extra}", "work.c", "-o", "work.so"]
    subprocess.run(words, cwd=folder, check=True)
    return folder


@contextlib.contextmanager
def load(loops: int) -> Iterator[None]:
    """Keeps `loops` busy loops running while this context is open."""
    spin = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(spin) for _ in range(loops)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def measured(where: Path, out: Path, timeout_s: float) -> dict[str, object]:
    """Measures the compiled kernel work.so by `bench.py kernel`, in a process of its own. Returns
    the results.
    """
    words = ["kernel", "work.so:work", *WORDS, "--ref", "reference.py:work"]
    return _results(where, words, out, timeout_s)


def _results(where: Path, words: Sequence[str], out: Path, timeout_s: float) -> dict[str, object]:
    command = [sys.executable, BENCH, *words, "--timeout", str(timeout_s), "--json", str(out)]
    subprocess.run(command, cwd=where, check=True, timeout=RUN_S, stdout=subprocess.DEVNULL)
    return results.load(out)


def compared(args: argparse.Namespace, folder: Path) -> bool:
    """Runs `bench.py compare` on equal kernels and on a slowed one, and prints its verdicts.
    Returns whether it met this script's goals.
    """
    same, slow = compiled(folder / "same", 0.0), compiled(folder / "slow", PLANTED)
    own: Counter[str] = Counter()
    planted: Counter[str] = Counter()
    before: list[dict[str, object]] = []
    for at in range(args.pairs + 1):
        slower = None
        now = [measured(same, folder / "a.json", args.timeout)]
        for kernel, axis in (("copy_f32", "n=64K"), ("gemm_f32", "size=256")):
            words = ["run", kernel, "-a", axis]
            now.append(_results(same, words, folder / "b.json", args.timeout))
        for old, new in zip(before, now, strict=False):
            own.update(f"{p.name[0]} {p.verdict}" for p in compare.compare(old, new))
        if at * args.planted // (args.pairs + 1) < (at + 1) * args.planted // (args.pairs + 1):
            slower = measured(slow, folder / "c.json", args.timeout)
            planted.update(p.verdict for p in compare.compare(now[0], slower))
        before = now
        if args.keep:
            with args.keep.open("a") as file:
                file.write(json.dumps([now, slower]) + "\n")
        print(f"# {at} of {args.pairs}: {_told(own)}; planted: {_told(planted)}", flush=True)
    wrong = sum(count for verdict, count in own.items() if verdict.endswith("SLOW"))
    print(f"with itself: {_told(own)} in {args.pairs} comparisons of three rows")
    print(f"{PLANTED:.0%} planted: {planted['SLOW']} of {args.planted} SLOW")
    found = planted["SLOW"] >= LEAST_FOUND * args.planted
    return bool(found and wrong <= MOST_WRONG * args.pairs)


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "nothing"


SPIN = """
import time, timeit
class Timer(timeit.Timer):
    def timeit(self, number=1):
        start = time.perf_counter()
        until = start + (1 + {}) * super().timeit(number)
        while time.perf_counter() < until:
            pass
        return time.perf_counter() - start
timeit.Timer = Timer
"""


def interleaved(args: argparse.Namespace, folder: Path) -> bool:
    """Runs against.py on equal builds and on a slowed one, and prints its verdicts. Returns whether
    it found the slowed build often enough.
    """
    (case,) = against.chosen([f"^{CASE}$"])
    (folder / "spin").mkdir()
    (folder / "spin" / "sitecustomize.py").write_text(SPIN.format(PLANTED_BUILD))
    settings = measure.Settings(CASE_S, ROUNDS, ROUNDS)
    cpus = sorted(os.sched_getaffinity(0))[-1:]
    found: Counter[str] = Counter()
    for at in range(args.against):
        for what, first in (("itself", []), ("planted", [folder / "spin"])):
            with contextlib.ExitStack() as stack:
                place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
                builds = []
                for name, paths in ((OURS, first), (against.BEFORE, [])):
                    builds.append(against.Build(name, ROOT, 1, cpus, place, paths))
                    stack.callback(builds[-1].close)
                row = against.compared(case, builds, settings, place)
            (ratio,) = (r for way, r in row["ways"].items() if way == "checked")
            found[what] += ratio["low"] > 1
            print(f"# {what}: {ratio['ratio']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})")
        print(f"# {at + 1} of {args.against}: slower: {_told(found)}", flush=True)
    print(f"against.py: slower {found['itself']} of {args.against} with itself, ", end="")
    print(f"{found['planted']} of {args.against} with {PLANTED_BUILD:.0%} planted")
    return bool(found["planted"] >= LEAST_FOUND * args.against)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="self_compare.py", description=(__doc__ or "").partition("\n\n")[0]
    )
    top.add_argument("--pairs", type=int, default=100, help="comparisons with itself")
    top.add_argument("--planted", type=int, default=20, help="comparisons with the slow form")
    top.add_argument("--against", type=int, default=0, help="instead: times to run against.py")
    top.add_argument("--load", type=int, default=2, help="busy loops beside; default: %(default)s")
    top.add_argument("--keep", type=Path, help="append results to this file, one line per round")
    top.add_argument("--timeout", type=float, default=2.0, help="seconds per row")
    return top


def main(argv: Sequence[str]) -> int:
    """Runs the command line. Returns the exit code."""
    args = parser().parse_args(argv)
    try:
        with tempfile.TemporaryDirectory(prefix="sparkle-self-") as name, load(args.load):
            held = (interleaved if args.against else compared)(args, Path(name))
    except UsageError as error:
        print(f"self_compare.py: {error}", file=sys.stderr)
        return USAGE
    return OK if held else FAILED


if __name__ == "__main__":
    sys.exit(output.guarded("self_compare.py", lambda: main(sys.argv[1:])))
