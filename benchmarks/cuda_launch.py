"""The cost of a launch on cuda:0 to its caller: from C, by `prepare()()`, by `Queue.launch` with
0, 4 and 16 arguments. cuda.bindings, with its own handling of arguments, is added if installed.

All rows run in one process and one primary context, in turns. Launches come in bursts that are too
short to fill a driver's ring. The wait after each burst is not counted. `--fake` uses the fake
driver, whose launch costs under 40 ns: the rest is the binding's cost. Kernels are empty. The
script checks that each launch was accepted, and that the last launch of a burst ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from _reexec import reexec  # noqa: E402

reexec()

import argparse  # noqa: E402
import ctypes  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import shutil  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402

import numpy as np  # noqa: E402
from _bench.machine import env  # noqa: E402
from _bench.report.writers import Outputs  # noqa: E402
from _bench.rows import results, stats  # noqa: E402
from _console import output, table  # noqa: E402
from _console.problems import FAILED, NO_DEVICE, OK, UsageError  # noqa: E402
from _gpu_peers import images  # noqa: E402
from _gpu_peers.base import Call, Peer  # noqa: E402
from _gpu_peers.bindings import Bindings  # noqa: E402
from _gpu_peers.sparkle import Sparkle  # noqa: E402

import sparkle_drv as sp  # noqa: E402

FAKE = ROOT / "build/fake/libcuda.so.1"
COUNTS = (0, 4, 16)
# a function that makes the given number of launches and returns ns per launch
Burst = Callable[[int], float]


def timed(call: Call, sync: Call) -> Burst:
    def burst(count: int) -> float:
        each = range(count)
        start = time.perf_counter_ns()
        for _ in each:
            call()
        taken = time.perf_counter_ns() - start
        sync()
        return taken / count

    # Each row gets its own code object, as in a user's program. CPython 3.11 specialises a call
    # site for the object that was called there before. Rows that shared one call site would cost 12
    # ns more.
    burst.__code__ = burst.__code__.replace()
    return burst


def of_peer(name: str, peer: Peer) -> dict[str, Burst]:
    """Returns {row: a function that makes and times a burst of launches} for a peer."""
    peer.init()
    memory: list[object] = [peer.device(4096) for _ in range(4)]
    rows = {}
    for count in COUNTS:
        kernel = peer.kernel(images.empty(count), images.ENTRY, images.TYPES[count])
        args = images.arguments(count, memory)
        rows[f"{name}, {count} arguments"] = timed(peer.launch(kernel, args), peer.sync)
        if count == 4:
            rows[f"{name}, prepared"] = timed(peer.prepared(kernel, args), peer.sync)
    return rows


def baseline(library: str, folder: Path) -> Burst | None:
    """Returns a function that times a burst of launches: a loop in C calls cuLaunchKernel with 4
    arguments. Returns None if this machine has no C compiler.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    out = folder / "burst.so"
    source = ROOT / "benchmarks/_gpu_peers/burst.c"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", out, source], check=True)
    cuda, made = ctypes.CDLL(library), ctypes.CDLL(str(out))
    made.burst.restype = ctypes.c_double

    def take(call: str, *args: object) -> int:
        got = ctypes.c_void_p()
        code = getattr(cuda, call)(ctypes.byref(got), *args)
        if code:
            raise sp.DriverCallError(f"C baseline: {call}: expected the status 0, got {code}")
        return got.value or 0

    stream = ctypes.c_void_p(take("cuStreamCreate", 1))
    module = take("cuModuleLoadData", images.empty(4))
    kernel = take("cuModuleGetFunction", ctypes.c_void_p(module), images.ENTRY.encode())
    values = [ctypes.c_uint64() for _ in range(4)]
    args = (ctypes.c_void_p * 4)(*map(ctypes.addressof, values))
    entry = ctypes.cast(cuda.cuLaunchKernel, ctypes.c_void_p)

    def burst(count: int) -> float:
        _kept = values
        ns = float(made.burst(entry, ctypes.c_void_p(kernel), stream, args, count))
        cuda.cuStreamSynchronize(stream)
        if ns < 0:
            raise sp.DriverCallError(
                f"C baseline: cuLaunchKernel: expected the status 0, got {-ns:.0f}"
            )
        return ns

    return burst


def all_rows(library: str, folder: Path) -> tuple[dict[str, Burst], str]:
    """Returns {row: its function of type Burst}, and the version of cuda.bindings. The version is
    "" if cuda.bindings is not installed.
    """
    ours = Sparkle()
    ours.start()
    rows = of_peer("sparkle_drv", ours)
    c = baseline(library, folder)
    if c is not None:
        rows = {"C, 4 arguments": c, **rows}
    theirs = Bindings()
    try:
        version = theirs.start()
    except ImportError:
        return rows, ""
    return rows | of_peer("cuda.bindings", theirs), version


def measure(rows: dict[str, Burst], rounds: int, launches: int) -> dict[str, list[float]]:
    """Returns, by row, the ns per launch in each round. Rows are timed in turns, in an order that
    rotates.
    """
    names = list(rows)
    for name in names:
        rows[name](launches)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for at in range(rounds):
        turn = at % len(names)
        for name in names[turn:] + names[:turn]:
            taken[name].append(rows[name](launches))
    return taken


def peer_of(name: str, taken: dict[str, list[float]]) -> list[float] | None:
    """Returns the samples of the row of cuda.bindings that corresponds to a row of this package."""
    return taken.get(name.replace("sparkle_drv", "cuda.bindings")) if "sparkle" in name else None


def show(taken: dict[str, list[float]], seed: int) -> list[dict[str, object]]:
    lines, rows = [], []
    for name, ns in taken.items():
        row: dict[str, object] = {"row": name, "samples_ns": ns, "median_ns": float(np.median(ns))}
        words = "-"
        theirs = peer_of(name, taken)
        if theirs is not None and len(ns) >= stats.FEWEST_FOR_INTERVAL:
            low, high = stats.ratio_interval(theirs, ns, seed)
            ratio = float(np.median(ns) / np.median(theirs))
            row |= {"of_bindings": ratio, "low": low, "high": high}
            words = f"{ratio:.2f} ({low:.2f} .. {high:.2f})"
        rows.append(row)
        lines.append([name, table.duration(min(ns)), table.duration(float(np.median(ns))), words])
    table.show(("", "least", "median", "of cuda.bindings (95 %)"), lines)
    return rows


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n\n")[0],
        epilog="exit codes: 0 well, 1 a launch failed, 2 usage, 3 no such device",
    )
    made.add_argument("--fake", action="store_true", help="the fake CUDA driver for cuda:0")
    made.add_argument("--rounds", type=_whole, default=60, help="of each row (default 60)")
    made.add_argument(
        "--launches", type=_whole, default=100, help="per burst (default 100; at most 1000)"
    )
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    return made


def _whole(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1000:  # a driver's queue of launches holds about a thousand
        raise argparse.ArgumentTypeError(f"expected 1 to 1000 launches, got {text}")
    return value


def main() -> int:
    options = parser()
    args = options.parse_args()
    library = os.environ.get("SPARKLE_LIBCUDA") or "libcuda.so.1"
    if args.fake:
        if not FAKE.exists():
            options.error(f"--fake: {FAKE} is not there; make fake-cuda builds it")
        library = os.environ["SPARKLE_LIBCUDA"] = str(FAKE)
        ctypes.CDLL(library)  # afterwards cuda.bindings finds the loaded library by its name
    try:
        Outputs(args.json).check()
        with tempfile.TemporaryDirectory() as folder:
            sp.open("cuda:0").close()
            rows, version = all_rows(library, Path(folder))
            taken = measure(rows, args.rounds, args.launches)
    except UsageError as error:
        options.error(str(error))
    except sp.DeviceNotFound as error:
        print(f"cuda_launch.py: {error}", file=sys.stderr)
        return NO_DEVICE
    except (sp.SparkleError, RuntimeError) as error:
        print(f"cuda_launch.py: {error}", file=sys.stderr)
        return FAILED
    about = env.describe()
    print(
        f"# ns of a launch on the host, load {about['load_1min']}: {args.rounds} rounds of "
        f"{args.launches}; cuda.bindings {version or 'is not installed'}"
    )
    written = show(taken, args.seed)
    if args.json:
        document = {"env": about, "fake": args.fake, "bindings": version, "rows": written}
        text = json.dumps(results.finite(document)) + "\n"
        return OK if output.save("cuda_launch.py", args.json, text) else FAILED
    return OK


if __name__ == "__main__":
    sys.exit(output.guarded("cuda_launch.py", main))
