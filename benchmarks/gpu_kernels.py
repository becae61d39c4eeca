"""The rates of the package's own kernels and queues on a GPU. All is verified before it is timed.

    python benchmarks/gpu_kernels.py -d cuda:0 --json kernels.json --md kernels.md

* copy, copy_f32 and saxpy_f32: bytes read and written per second, as a share of the rate of the
  driver's own copy on the device;
* gemm and conv2d: TFLOP/s, after samples of the result agreed with float64;
* overlap: a copy from pinned memory runs beside a kernel; the figure is how much of the shorter of
  the two is hidden;
* overhead: the time that a kernel of 10 us takes beyond its 10 us, with a wait after each kernel,
  and in a pipeline.

The host measures a time around many calls and one wait. All times are therefore those of work that
is queued ahead.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from _reexec import reexec

# Restart in the virtual environment. gpu_run.sh has none and passes --no-reexec.
if "--no-reexec" not in sys.argv:
    reexec()

import argparse
import json
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np
from _console import output
from _gpu_peers.table import commit

import sparkle_drv as sp
from sparkle_drv.ops import ref

ROUNDS = 7
TARGET_S = 0.05  # approximate seconds of one round of a row
SAMPLES = 64  # elements of a result that are compared with float64
KERNEL_US = 10.0
STEPS = 300  # launches in each loop that `overhead` times
DEPTH = 3
Row = dict[str, Any]


class Wrong(Exception):
    """Says that a result is wrong. The row is not timed."""


def timed(queue: sp.Queue, go: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Returns the median seconds of one call when many calls are queued one after the other."""

    def once(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            go()
        queue.fence(queue.submitted).wait()
        return (time.perf_counter() - start) / count

    once(1)
    count = max(1, min(500, int(TARGET_S / max(once(1), 1e-7))))
    return median(once(count) for _ in range(rounds))


def close_to(what: str, got: Any, want: Any, kernel: str, terms: int) -> None:
    """Raises Wrong for the first element whose error exceeds the kernel's tolerance."""
    rms = float(np.sqrt(np.mean(np.square(want)))) if terms > 1 else None
    found = ref.mismatch(np.asarray(got), np.asarray(want), ref.tolerance(kernel, k=terms), rms)
    if found.index is not None:
        raise Wrong(
            f"{what}: element {found.index}: expected {found.want:.8g}, got {found.got:.8g} "
            f"(the largest error is {found.error:.3g})"
        )


def bandwidth(dev: sp.Device, n: int) -> list[Row]:
    """Returns the rows of the driver's copy, and of kernels that read and write n
    elements of f32.
    """
    rng, queue = np.random.default_rng(1), dev.default_queue
    x, y = (rng.standard_normal(n, np.float32) for _ in range(2))
    rows: list[Row] = []
    with dev.array(x) as a, dev.array(y) as b, dev.empty(n, np.float32) as c:
        copy = sp.Commands().copy(c.buffer, a.buffer)
        queue.submit(copy).wait()
        if not np.array_equal(c.numpy(), x):
            raise Wrong("copy by the driver: expected the elements of x, got other values")
        best = 8 * n / timed(queue, lambda: queue.submit(copy))
        rows.append({"name": "copy by the driver", "n": n, "gb_s": best / 1e9, "share": 1.0})
        with dev.kernel("copy_f32") as k, dev.kernel("saxpy_f32") as s:
            queue.launch(s, b, a, 0.5, n, groups=-(-n // 256)).wait()
            close_to("saxpy_f32", b.numpy(), 0.5 * x.astype("f8") + y, "saxpy_f32", 1)
            b.buffer.write(np.zeros(n, np.float32))
            queue.launch(k, b, a, n, groups=-(-n // 256)).wait()
            if not np.array_equal(b.numpy(), x):
                raise Wrong("copy_f32")
            for name, nbytes, go in (
                ("copy_f32", 8 * n, queue.prepare(k, b, a, n, groups=-(-n // 256))),
                ("saxpy_f32", 12 * n, queue.prepare(s, b, a, 0.0, n, groups=-(-n // 256))),
            ):
                rate = nbytes / timed(queue, go)
                rows.append({"name": name, "n": n, "gb_s": rate / 1e9, "share": rate / best})
    return rows


def gemm(dev: sp.Device, dtype: str, size: int) -> Row:
    """Measures a product of size^3. Sampled elements of the result are compared with
    float64 first.
    """
    rng, queue, name = np.random.default_rng(2), dev.default_queue, f"gemm_{dtype}"
    kind = np.float32 if dtype == "f32" else np.float64
    a, b = (rng.standard_normal((size, size)).astype(kind) for _ in range(2))
    with (
        dev.array(a) as left, dev.array(b) as right, dev.empty((size, size), kind) as out,
        dev.kernel(name) as k,
    ):  # fmt: skip
        args = (out, left, right, None, size, size, size, size, 1, size, 1, size, 0)
        queue.launch(k, *args).wait()
        got = out.numpy()
        rows, columns = rng.integers(0, size, (2, SAMPLES))
        want = np.einsum("ik,ki->i", a[rows].astype("f8"), b[:, columns].astype("f8"))
        close_to(f"{name} {size}", got[rows, columns], want, name, size)
        seconds = timed(queue, queue.prepare(k, *args))
    return {"name": name, "size": f"{size}^3", "tflop_s": 2 * size**3 / seconds / 1e12}


def conv2d(dev: sp.Device, n: int, c: int, side: int, oc: int, window: int) -> Row:
    """Measures a convolution of stride 1 whose image keeps its size. Sampled outputs are compared
    with float64 first.
    """
    rng, queue, pad = np.random.default_rng(3), dev.default_queue, window // 2
    x = rng.standard_normal((n, c, side, side), np.float32)
    w = rng.standard_normal((oc, c, window, window), np.float32)
    what = f"{n}x{c}x{side}x{side}, {oc} of {window}x{window}"
    with (
        dev.array(x) as image, dev.array(w) as weights,
        dev.empty((n, oc, side, side), np.float32) as out, dev.kernel("conv2d_f32") as k,
    ):  # fmt: skip
        shape = (n, c, side, side, oc, window, window, side, side)
        args = (out, image, weights, None, *shape, 1, 1, pad, pad, 1, 1, 1, 0, 0)
        queue.launch(k, *args).wait()
        got = out.numpy()
        padded = np.pad(x.astype("f8"), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        at = [rng.integers(0, high, SAMPLES) for high in got.shape]
        want = [
            np.sum(padded[i, :, p : p + window, q : q + window] * w[o])
            for i, o, p, q in zip(*at, strict=True)
        ]
        close_to(f"conv2d {what}", got[tuple(at)], np.array(want), "conv2d_f32", c * window**2)
        seconds = timed(queue, queue.prepare(k, *args))
    flops = 2 * n * oc * side * side * c * window**2
    return {"name": "conv2d_f32", "size": what, "tflop_s": flops / seconds / 1e12}


def steps_for(queue: sp.Queue, kernel: sp.Kernel, y: sp.Buffer, seconds: float) -> int:
    """Returns the number of iterations with which the kernel busy_u32 takes about `seconds`."""
    base = 1 << 12
    each = timed(queue, queue.prepare(kernel, y, base, groups=1), 3) / base
    return max(1, min(1 << 30, int(seconds / each)))


def overlap(dev: sp.Device, nbytes: int) -> Row:
    """Measures a copy from pinned memory beside a kernel of about the same length, on
    two queues.
    """
    with (
        dev.queue() as work, dev.queue() as move, dev.kernel("busy_u32") as k, dev.buffer(4) as y,
        dev.buffer(nbytes) as to, dev.buffer(nbytes, sp.Memory.HOST) as of,
    ):  # fmt: skip
        copy = sp.Commands().copy(to, of)
        copy_s = timed(move, lambda: move.submit(copy))
        iters = steps_for(work, k, y, copy_s)
        run = work.prepare(k, y, iters, groups=1)
        kernel_s = timed(work, run)

        def both() -> float:
            start = time.perf_counter()
            value, fence = run(), move.submit(copy)
            work.fence(value).wait()
            fence.wait()
            return time.perf_counter() - start

        both()
        both_s = median(both() for _ in range(ROUNDS))
        if y.read(np.uint32, 1)[0] != chain(iters):
            raise Wrong("busy_u32")
    shorter = min(copy_s, kernel_s)
    return {
        "name": "overlap", "copy_us": copy_s * 1e6, "kernel_us": kernel_s * 1e6,
        "both_us": both_s * 1e6, "hidden": (copy_s + kernel_s - both_s) / shorter,
    }  # fmt: skip


def chain(iters: int) -> int:
    """Returns what busy_u32 computes: it begins with x = 1 and repeats x = 1664525 x + 1013904223
    `iters` times. This function composes the steps by repeated squaring.
    """
    a, c, factor, term = 1, 0, 1664525, 1013904223
    while iters:
        if iters & 1:
            a, c = a * factor % 2**32, (c * factor + term) % 2**32
        factor, term, iters = factor * factor % 2**32, (term * factor + term) % 2**32, iters >> 1
    return (a + c) % 2**32


class Slot:
    """Input and output in pinned memory, and the commands that compute the output from
    the input.
    """

    def __init__(self, dev: sp.Device, kernel: sp.Kernel, iters: int) -> None:
        self.given, self.taken = (dev.buffer(4096, sp.Memory.HOST) for _ in range(2))
        self.there, self.y = dev.buffer(4096), dev.buffer(4096)
        self.commands = sp.Commands().copy(self.there, self.given)
        self.commands.dispatch(kernel, self.y, iters, groups=1).copy(self.taken, self.y)


def overhead(dev: sp.Device) -> Row:
    """Measures the us that a kernel of KERNEL_US takes beyond KERNEL_US: one at a time, and with
    three in flight.
    """
    with dev.kernel("busy_u32") as k, dev.buffer(4) as y:
        queue = dev.default_queue
        iters = steps_for(queue, k, y, KERNEL_US * 1e-6)
        kernel_s = timed(queue, queue.prepare(k, y, iters, groups=1))

        def synchronous() -> float:
            slot, start = Slot(dev, k, iters), time.perf_counter()
            for _ in range(STEPS):
                queue.submit(slot.commands).wait()
            return (time.perf_counter() - start) / STEPS

        def pipelined() -> float:
            with dev.pipeline(DEPTH, lambda: Slot(dev, k, iters)) as pipe:
                start = time.perf_counter()
                for _ in range(STEPS):
                    slot = pipe.acquire()
                    last = pipe.submit(slot, slot.commands)
                last.wait()
                return (time.perf_counter() - start) / STEPS

        taken: dict[str, list[float]] = {"synchronous": [], "pipelined": []}
        for _ in range(ROUNDS):  # interleaved
            taken["synchronous"].append(synchronous())
            taken["pipelined"].append(pipelined())
    costs = {way: (median(all_) - kernel_s) * 1e6 for way, all_ in taken.items()}
    return {
        "name": "overhead", "kernel_us": kernel_s * 1e6, **{f"{w}_us": c for w, c in costs.items()},
        "ratio": costs["synchronous"] / costs["pipelined"] if costs["pipelined"] > 0 else None,
    }  # fmt: skip


def measure(dev: sp.Device, quick: bool, keep: Callable[[list[Row]], None]) -> list[Row]:
    """Returns all rows. A row that is wrong or failed has an "error" in place of figures. After
    each part, `keep` gets the rows so far.
    """
    n = 1 << 12 if quick else 1 << 26
    sizes = {"f32": [64], "f64": [64]} if quick else {"f32": [1024, 4096, 8192], "f64": [4096]}
    images = [(1, 4, 8, 16, 3)] if quick else [(32, 64, 56, 64, 3), (32, 256, 14, 256, 3)]
    nbytes = 1 << 16 if quick else 1 << 26
    todo: list[tuple[str, Callable[[], Any]]] = [("bandwidth", lambda: bandwidth(dev, n))]
    for dtype, all_sizes in sizes.items():
        for size in all_sizes:
            todo.append((f"gemm_{dtype}", lambda d=dtype, s=size: [gemm(dev, d, s)]))  # type: ignore[misc]
    for image in images:
        todo.append(("conv2d_f32", lambda i=image: [conv2d(dev, *i)]))  # type: ignore[misc]
    todo += [("overlap", lambda: [overlap(dev, nbytes)]), ("overhead", lambda: [overhead(dev)])]
    rows: list[Row] = []
    for name, make in todo:
        try:
            rows += make()
        except (Wrong, sp.SparkleError, ValueError) as error:
            rows.append({"name": name, "error": f"{type(error).__name__}: {error}"})
        keep(rows)
    return rows


def markdown(result: dict[str, Any]) -> str:
    """Returns the rows as Markdown, with a note whether they meet their goals."""
    head = f"{result['driver']}. Commit {result['commit'] or 'unknown'}, {result['date']}."
    fake = " **A fake driver: no GPU took part.**" * result["fake"]
    lines = [
        f"# Kernels on {result['device']}",
        "",
        head + fake,
        "",
        "| row | figure |",
        "|---|---|",
    ]
    for row in result["rows"]:
        rest = {key: value for key, value in row.items() if key != "name"}
        said = ", ".join(f"{key} {_shown(value)}" for key, value in rest.items())
        lines.append(f"| {row['name']} | {said} |")
    return "\n".join(lines) + "\n"


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main(argv: Sequence[str]) -> int:
    top = argparse.ArgumentParser(
        prog="gpu_kernels.py",
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 1 a row is wrong or failed, 3 no such device",
    )
    top.add_argument("-d", "--device", default="cuda:0", metavar="URI")
    top.add_argument("--quick", action="store_true", help="small sizes: a trial, no figures")
    top.add_argument("--json", help="write all results there")
    top.add_argument("--md", help="write the table there")
    top.add_argument("--no-reexec", action="store_true", help="stay with this Python")
    args = top.parse_args(argv)
    if output.overlap(args.json, args.md):
        print("gpu_kernels.py: --json and --md must be different files", file=sys.stderr)
        return 2
    try:
        dev = sp.open(args.device)
    except sp.DeviceNotFound as error:
        print(f"gpu_kernels.py: {error}", file=sys.stderr)
        return 3
    with dev:
        result: dict[str, Any] = {
            "device": dev.info.name, "driver": dev.info.driver, "quick": args.quick,
            "fake": dev.info.emulated, "commit": commit(),
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "finished": False,
        }  # fmt: skip

        def texts(rows: list[Row]) -> list[tuple[str, str]]:
            result["rows"] = rows
            both = ((args.json, json.dumps(result, indent=1) + "\n"), (args.md, markdown(result)))
            return [(path, text) for path, text in both if path]

        def keep(rows: list[Row]) -> None:
            for path, text in texts(rows):
                output.so_far(path, text)

        rows = measure(dev, args.quick, keep)
    result["finished"] = True
    print(markdown({**result, "rows": rows}))
    saved = [output.save("gpu_kernels.py", path, text) for path, text in texts(rows)]
    return 1 if not all(saved) or any("error" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(output.guarded("gpu_kernels.py", lambda: main(sys.argv[1:])))
