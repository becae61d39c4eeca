"""The cost of a launch compared with moderngl: three buffers, one scalar, a group of eight threads.

Both sides have the same GLSL text and run in this process. Each is verified first, launch by
launch. Then samples of both are taken in turns, in a new random order each round, so that a busy
moment affects both. A sample is a loop of launches whose scalar changes every time. It gives two
numbers per launch: the caller's time until the loop was over, and the time until the last launch
had ended. A launch of moderngl returns only when llvmpipe has computed. Our launches are computed
by the thread that owns the context. On one core, compare the second number; on two cores, the
first.

LP_NUM_THREADS=0 makes llvmpipe compute in the thread that calls it. The script sets the variable
and starts itself again, before any driver reads it. `--sets` changes the buffers from launch to
launch as well, as a program with several sets of buffers would.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from _reexec import reexec

reexec()

import argparse  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import random  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from dataclasses import dataclass, field  # noqa: E402
from typing import Any  # noqa: E402

if __name__ == "__main__" and os.environ.get("LP_NUM_THREADS") != "0":
    os.environ["LP_NUM_THREADS"] = "0"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])

import numpy as np  # noqa: E402
from _bench.machine import env  # noqa: E402
from _bench.rows import stats  # noqa: E402
from _console import output  # noqa: E402
from _console.problems import FAILED, NO_DEVICE, OK  # noqa: E402

import sparkle_drv as sp  # noqa: E402

WIDTH = 8  # threads of the one group: one vector of llvmpipe
LIST = 100  # launches in one list of commands
SCALARS = [float(i) for i in range(1, 8)]
GLSL = f"""\
layout(local_size_x = {WIDTH}) in;
layout(std430, binding = 0) buffer Y {{ float y[]; }};
layout(std430, binding = 1) readonly buffer X {{ float x[]; }};
layout(std430, binding = 2) readonly buffer Z {{ float z[]; }};
layout(location = 0) uniform float a;
void main()
{{
    uint i = gl_GlobalInvocationID.x;
    y[i] = a * x[i] + z[i];
}}
"""


@dataclass
class Case:
    """One way to launch. `loop` makes `launches` launches. `finish` returns when the last of them
    has ended.
    """

    name: str
    peer: str
    loop: Callable[[], object]
    finish: Callable[[], object]
    launches: int
    target: float | None = None
    caller_ns: list[float] = field(default_factory=list)
    whole_ns: list[float] = field(default_factory=list)

    def sample(self) -> None:
        begun = time.perf_counter_ns()
        self.loop()
        returned = time.perf_counter_ns()
        self.finish()
        ended = time.perf_counter_ns()
        self.caller_ns.append((returned - begun) / self.launches)
        self.whole_ns.append((ended - begun) / self.launches)


Values = list[tuple[np.ndarray, np.ndarray]]
BIND_SET_RUN, RUN, FINISH_EACH = "bind, set, run", "run alone", "bind, set, run, finish each"


class Theirs:
    """Launches through moderngl, used as in its own documentation. Attributes are looked up before
    the loop.
    """

    def __init__(self, inputs: Values) -> None:
        import moderngl

        untyped: Any = moderngl  # moderngl's type stubs lack this argument and methods of buffers
        self.context = untyped.create_standalone_context(backend="egl", require=430)
        self.shader = self.context.compute_shader(f"#version 430 core\n{GLSL}")
        self.scalar = self.shader["a"]
        zero = np.zeros(WIDTH, np.float32)
        self.sets = [[self.context.buffer(b) for b in (zero, x, z)] for x, z in inputs]

    def one(self, index: int, a: float) -> np.ndarray:
        y, x, z = self.sets[index]
        y.bind_to_storage_buffer(0)
        x.bind_to_storage_buffer(1)
        z.bind_to_storage_buffer(2)
        self.scalar.value = a
        self.shader.run(1)
        return np.frombuffer(y.read(), np.float32)

    def cases(self, launches: int) -> list[Case]:
        """Returns the cases to measure. Each loop is written out, because calling a helper would
        cost as much as binding a buffer.
        """
        scalar, run, finish = self.scalar, self.shader.run, self.context.finish
        work = [(*self.sets[i % len(self.sets)], SCALARS[i % 7]) for i in range(launches)]
        few = work[: launches // 10]

        def bind_set_run() -> None:
            for y, x, z, a in work:
                y.bind_to_storage_buffer(0)
                x.bind_to_storage_buffer(1)
                z.bind_to_storage_buffer(2)
                scalar.value = a
                run(1)

        def run_alone() -> None:
            for _ in work:
                run(1)

        def finish_each() -> None:
            for y, x, z, a in few:
                y.bind_to_storage_buffer(0)
                x.bind_to_storage_buffer(1)
                z.bind_to_storage_buffer(2)
                scalar.value = a
                run(1)
                finish()

        return [
            Case(f"moderngl {BIND_SET_RUN}", "", bind_set_run, finish, launches),
            Case(f"moderngl {RUN}", "", run_alone, finish, launches),
            Case(f"moderngl {FINISH_EACH}", "", finish_each, finish, len(few)),
        ]


class Ours:
    """Launches through sparkle_drv. The kernel and its data are those of the moderngl launches."""

    def __init__(self, dev: sp.Device, inputs: Values) -> None:
        zero = np.zeros(WIDTH, np.float32)
        self.queue = dev.queue()
        self.kernel = dev.kernel(image=GLSL.encode(), entry="main", args="f32* f32* f32* f32")
        self.sets = [[dev.array(b) for b in (zero, x, z)] for x, z in inputs]

    def one(self, index: int, a: float) -> list[np.ndarray]:
        """Launches the kernel by `launch`, `prepare` and `submit`, on the set of arrays number
        `index`. The output is poisoned before each launch. Returns the three results.
        """
        y, x, z = self.sets[index]
        kernel, queue = self.kernel, self.queue
        listed = sp.Commands().dispatch(kernel, y, x, z, a, groups=1)
        go = queue.prepare(kernel, y, x, z, a, groups=1)
        found = []
        ways: tuple[Callable[[], sp.Fence], ...] = (
            lambda: queue.launch(kernel, y, x, z, a, groups=1),
            lambda: queue.fence(go()),
            lambda: queue.submit(listed),
        )
        for way in ways:
            queue.write(y.buffer, np.full(WIDTH, np.nan, np.float32)).wait()
            way().wait()
            found.append(y.numpy())
        return found

    def cases(self, launches: int) -> list[Case]:
        kernel, queue = self.kernel, self.queue
        launch, submit = queue.launch, queue.submit
        work = [(*self.sets[i % len(self.sets)], SCALARS[i % 7]) for i in range(launches)]
        few = work[: launches // 10]
        span = 7 * len(self.sets)
        made = [queue.prepare(kernel, *args, groups=1) for args in work[:span]]
        goes = [made[i % span] for i in range(launches)]
        listed = sp.Commands()
        for args in work[:LIST]:
            listed.dispatch(kernel, *args, groups=1)
        lists = range(launches // LIST)

        def launched() -> None:
            for y, x, z, a in work:
                launch(kernel, y, x, z, a, groups=1)

        def prepared() -> None:
            for go in goes:
                go()

        def batched() -> None:
            for _ in lists:
                submit(listed)

        def waited() -> None:
            for y, x, z, a in few:
                launch(kernel, y, x, z, a, groups=1).wait()

        peer, each = f"moderngl {BIND_SET_RUN}", f"moderngl {FINISH_EACH}"
        return [
            Case("launch", peer, launched, self.finish, launches, 0.8),
            Case("prepared", peer, prepared, self.finish, launches, 0.8),
            Case(f"batched, lists of {LIST}", peer, batched, self.finish, launches, 0.6),
            Case("launch, wait each", each, waited, self.finish, len(few)),
        ]

    def finish(self) -> None:
        self.queue.fence(self.queue.submitted).wait()


def verified(theirs: Theirs, ours: Ours, inputs: Values) -> bool:
    """Returns whether moderngl and sparkle_drv compute a*x + z for every set of arrays and scalar,
    in each way of launching.
    """
    for index, (x, z) in enumerate(inputs):
        for a in SCALARS:
            want = np.float64(a) * x + z
            for who, y in [("moderngl", theirs.one(index, a))] + [
                ("sparkle_drv", y) for y in ours.one(index, a)
            ]:
                # tolerance for one rounding (FMA) or two
                if not np.allclose(y, want, rtol=4e-7, atol=1e-6):
                    print(f"{who}: expected {want}, got {y} (a = {a})", file=sys.stderr)
                    return False
    return True


def take(cases: list[Case], rounds: int, seed: int) -> None:
    """Takes one sample of each case per round, after a first round that does not count."""
    order = random.Random(seed)
    for number in range(rounds + 1):
        for case in order.sample(cases, len(cases)):
            case.sample()
            if number == 0:
                case.caller_ns.clear()
                case.whole_ns.clear()


def ratio(case: Case, peer: Case, which: str) -> dict[str, float]:
    mine, theirs = getattr(case, which), getattr(peer, which)
    low, high = stats.ratio_interval(theirs, mine)
    value = float(np.median(mine) / np.median(theirs))
    return {"ratio": value, "low": low, "high": high}


def rows(cases: list[Case]) -> list[dict[str, Any]]:
    by_name = {case.name: case for case in cases}
    found = []
    for case in cases:
        row: dict[str, Any] = {"case": case.name, "target": case.target}
        for which in ("caller_ns", "whole_ns"):
            summary = stats.summarize(getattr(case, which))
            row[which] = {"median": summary.median, "low": summary.low, "high": summary.high}
            if case.peer:
                row[which] |= ratio(case, by_name[case.peer], which)
        found.append(row)
    return found


def show(found: list[dict[str, Any]]) -> None:
    print(f"{'ns per launch':38} {'caller':>8} {'x moderngl':>20} {'to the end':>11}", end="")
    print(f" {'x moderngl':>20}")
    for row in found:
        line = f"{row['case']:38}"
        for which, width in (("caller_ns", 9), ("whole_ns", 12)):
            cell = row[which]
            line += f"{cell['median']:{width}.0f}"
            text = ""
            if "ratio" in cell:
                text = f"{cell['ratio']:.2f} [{cell['low']:.2f}, {cell['high']:.2f}]"
            line += f" {text:>20}"
        if row["target"]:
            met = row["caller_ns"]["ratio"] <= row["target"]
            line += f"  caller at most {row['target']}: {'yes' if met else 'no'}"
        print(line)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 measured, 1 a result was wrong, 2 usage, 3 no device or no moderngl",
    )
    made.add_argument("-d", "--device", default="egl:0", help="default egl:0")
    made.add_argument("--rounds", type=int, default=60, help="samples of each case (60)")
    made.add_argument("--launches", type=int, default=1000, help="per sample (1000)")
    made.add_argument("--sets", type=int, default=1, help="sets of three buffers, in turn (1)")
    made.add_argument("--seed", type=int, default=1, help="of inputs and order (1)")
    made.add_argument("--json", type=Path, metavar="FILE", help="write rows and samples")
    return made


def main() -> int:
    top = parser()
    args = top.parse_args()
    if args.rounds < 1 or args.sets < 1 or args.launches < LIST or args.launches % LIST:
        top.error(f"expected --rounds and --sets of 1 or more, --launches a multiple of {LIST}")
    rng = np.random.default_rng(args.seed)
    draw = rng.standard_normal((args.sets, 2, WIDTH), np.float32)
    inputs: Values = [(x, z) for x, z in draw]
    try:
        dev, theirs = sp.open(args.device), Theirs(inputs)
    except (sp.DeviceNotFound, ImportError) as error:
        print(error, file=sys.stderr)
        return NO_DEVICE
    ours = Ours(dev, inputs)
    print(f"{dev.info.name}, {dev.info.driver}; seed {args.seed}, {args.sets} set(s) of buffers")
    print(f"load before: {Path('/proc/loadavg').read_text().strip()}; {os.cpu_count()} cores")
    if not verified(theirs, ours, inputs):
        return FAILED
    cases = [*theirs.cases(args.launches), *ours.cases(args.launches)]
    take(cases, args.rounds, args.seed)
    if not verified(theirs, ours, inputs):
        return FAILED
    found = rows(cases)
    show(found)
    dev.close()
    if args.json:
        samples = {c.name: {"caller_ns": c.caller_ns, "whole_ns": c.whole_ns} for c in cases}
        out = {"env": env.describe(), "seed": args.seed, "rows": found, "samples": samples}
        if not output.save("egl_launch.py", args.json, json.dumps(out, indent=1)):
            return FAILED
    return OK


if __name__ == "__main__":
    sys.exit(output.guarded("egl_launch.py", main))
