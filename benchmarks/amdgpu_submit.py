"""Host time of submitting one recorded dispatch again, compared with vkQueueSubmit of stock RADV.

RADV submits a command buffer that was recorded once, on the same emulated GPU. The dispatch is a
vecadd of 1000 floats on a compute queue. The result of every side is verified before and after.

A program in C reads the clock before and after each call. The emulated kernel driver measures the
time that its ioctls take, in the same way for all sides (emu/kmd/seam_time.c). That time is
subtracted. Each submission has ended before the next one starts. A repetition is a new process for
each side, in a new random order. It gives one number: the median of its submissions.

RADV's program is tests/radv/vk_compute.c. Ours, amdgpu_submit.c, makes the calls of
`queue.submit(commands)` in C. It also calls two Python functions as the interpreter does: `go()`,
which `queue.prepare` returned, and `queue.submit(commands)`, which also makes a fence. Targets are
ratios to one RADV: the system's if there is one, otherwise the first that is found.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from _reexec import reexec

reexec()

import argparse  # noqa: E402
import ctypes  # noqa: E402
import importlib  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import random  # noqa: E402
import shlex  # noqa: E402
import subprocess  # noqa: E402
from operator import methodcaller  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
from _bench.machine import env  # noqa: E402
from _bench.rows import stats  # noqa: E402
from _console import output  # noqa: E402
from _console.problems import FAILED, NO_DEVICE, OK  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/radv"))
radv: Any = importlib.import_module("run")

CHIPS = ("gfx1036", "gfx1100")
C, GO, SUBMIT = "sparkle_drv, C", "sparkle_drv, go()", "sparkle_drv, q.submit(c)"
WAYS = {"c": C, "go": GO, "submit": SUBMIT}
# for each of our three measurements: the largest ratio of its time to RADV's that meets the target
TARGETS = {C: 0.45, GO: 0.45, SUBMIT: 1.2}
N = 1000
WARM_UP = 100  # number of first submissions of a process that the results leave out
TIMEOUT_S = 120
HELPER = ROOT / "benchmarks" / "kernels" / "amdgpu_submit.c"


class Functions(ctypes.Structure):
    """The C struct `functions` of amdgpu_submit.c."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("resend", "submit", "wait", "seam"))


class One(ctypes.Structure):
    """The C struct `taken` of amdgpu_submit.c: times and ioctls of one submission."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("ns", "inside_ns", "ioctls"))


Taken = list[tuple[int, int, int]]  # per submission: ns, ns in the emulated kernel driver, ioctls


def helper() -> Path:
    """Returns the library made from amdgpu_submit.c, which is compiled again when the
    source is newer.
    """
    made = ROOT / "build" / "amdgpu_submit.so"
    if not made.exists() or made.stat().st_mtime < HELPER.stat().st_mtime:
        made.parent.mkdir(exist_ok=True)
        compiler = shlex.split(os.environ.get("CC", "gcc"))
        flags = ("-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(made))
        subprocess.run((*compiler, *flags, str(HELPER)), check=True)
    return made


def told(out: Any) -> Taken:
    return [(one.ns, one.inside_ns, one.ioctls) for one in out]


def from_c(call: Any, count: int) -> Taken:
    """Makes `count` submissions in C, with the records that `queue.submit(commands)` hands over."""
    submit_again = ctypes.CDLL(str(helper())).submit_again
    submit_again.restype = ctypes.c_int64
    submit_again.argtypes = (
        *(ctypes.POINTER(Functions), ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t),
        *(ctypes.c_uint64, ctypes.c_size_t, ctypes.POINTER(One)),
    )
    out = (One * count)()
    functions = Functions(call.resend, call.submit, call.wait, call.seam)
    rc = submit_again(functions, call.queue, call.records, call.nbytes, call.epoch, count, out)
    if rc:
        raise OSError(-rc, "sp_amdgpu_submit")
    return told(out)


def from_python(call: Any, function: Any, count: int, *args: Any, wait: Any) -> Taken:
    """Makes `count` submissions by calling the Python function `function(*args)` from C. `wait`
    gets each result.
    """
    # unlike CDLL, PyDLL raises the Python error that was set
    call_again = ctypes.PyDLL(str(helper())).call_again
    call_again.argtypes = (
        *(ctypes.POINTER(Functions), ctypes.py_object, ctypes.POINTER(ctypes.py_object)),
        *(ctypes.c_size_t, ctypes.py_object, ctypes.c_size_t, ctypes.POINTER(One)),
    )
    out, given = (One * count)(), (ctypes.py_object * len(args))(*args)
    functions = Functions(call.resend, call.submit, call.wait, call.seam)
    call_again(functions, function, given, len(args), wait, count, out)
    return told(out)


def ours(chip: str, way: str, count: int) -> int:
    """Submits through this package, in a process of its own. Prints a line per submission, as
    RADV's side (tests/radv/vk_compute.c) does.
    """
    from _inside import calls

    import sparkle_drv as sp
    import sparkle_drv.testing  # registers the emulated GPUs (emu: URIs)

    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(N, np.float32) for _ in range(2))
    with sp.open(f"emu:{chip}") as dev, dev.kernel("vecadd_f32") as kernel, dev.queue() as queue:
        x, y = dev.array(a), dev.array(b)
        z = dev.array(np.full(N, np.nan, np.float32))
        shape = {"groups": -(-N // 256)}
        commands = sp.Commands().dispatch(kernel, z, x, y, N, **shape)

        def right() -> bool:
            found = bool(np.array_equal(z.numpy(), a + b))
            z.buffer.write(np.full(N, np.nan, np.float32))
            return found

        queue.submit(commands).wait(TIMEOUT_S)
        verified = right()
        call = calls.of_submission(queue, commands)
        if way == "c":
            taken = from_c(call, count)
        elif way == "go":
            go = queue.prepare(kernel, z, x, y, N, **shape)
            taken = from_python(call, go, count, wait=lambda n: queue.fence(n).wait(TIMEOUT_S))
        else:
            wait = methodcaller("wait", TIMEOUT_S)
            taken = from_python(call, queue.submit, count, commands, wait=wait)
        verified = right() and verified
        for one in taken:
            print(*one)
        print("right" if verified else "wrong", "vecadd")
        for array in (x, y, z):
            array.close()
    return OK if verified else FAILED


def sides(chip: str, count: int, program: Path) -> dict[str, tuple[tuple[str, ...], Any]]:
    """Returns {side: (command, environment)}. A side is RADV or one of our ways to submit, and is
    measured in processes of its own. Raises radv.mesa.Absent if there is no RADV.
    """
    me = (sys.executable, str(Path(__file__).resolve()), "--submissions", str(count))
    found: dict[str, tuple[tuple[str, ...], Any]] = {
        name: ((*me, "--ours", chip, way), None) for way, name in WAYS.items()
    }
    for name, driver in radv.drivers():
        if isinstance(driver, radv.mesa.Absent):
            print(f"{name}: left out: {driver}")
            continue
        shown = (str(program), str(radv.HERE / "shaders"), "vecadd", "compute", str(count))
        found[name] = (shown, radv.environment(driver, chip))
    if len(found) == len(WAYS):
        raise radv.mesa.Absent("there is no RADV to compare with")
    return found


def measured(command: tuple[str, ...], environment: Any) -> tuple[float, float]:
    """Runs one process. Returns the medians per submission: ns outside the emulated kernel driver,
    and ioctls.
    """
    code, said = radv.run(command, environment)
    lines = said.strip().splitlines()
    if code or not lines or not lines[-1].startswith("right "):
        raise RuntimeError(
            f"{command[0]}: expected exit code 0 and a right result, "
            f"got exit code {code} and the output {said[-500:]}"
        )
    rows = np.array([line.split() for line in lines if line[0].isdigit()], np.int64)[WARM_UP:]
    return float(np.median(rows[:, 0] - rows[:, 1])), float(np.median(rows[:, 2]))


def take(args: argparse.Namespace) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Measures RADV and our ways to submit (the sides). Returns {chip: {side: one (ns, ioctls) for
    each repetition}}.
    """
    program, order = radv.build_program(), random.Random(args.seed)
    helper()
    all_sides = {chip: sides(chip, args.submissions, program) for chip in args.chips}
    found: dict[str, dict[str, list[tuple[float, float]]]] = {
        chip: {name: [] for name in known} for chip, known in all_sides.items()
    }
    for _ in range(args.repetitions):
        for chip, known in all_sides.items():
            for name in order.sample(sorted(known), len(known)):
                found[chip][name].append(measured(*known[name]))
    return found


def table(found: dict[str, dict[str, list[tuple[float, float]]]]) -> list[dict[str, Any]]:
    """Returns a row for each chip and side: ns, ioctls, and ratios. A side is a version of RADV or
    one of this package's ways to submit. A row of this package has a ratio for each RADV that was
    measured: the row's time divided by that RADV's.
    """
    made = []
    for chip, known in found.items():
        peers = [name for name in known if name.startswith("RADV")]
        for name, taken in known.items():
            ns = [one for one, _ in taken]
            s = stats.summarize(ns)
            row: dict[str, Any] = {"chip": chip, "side": name, "ns": stats.rounded(s)}
            row["ioctls"] = float(np.median([ioctls for _, ioctls in taken]))
            row["ratios"] = {}
            for peer in peers if name not in peers else ():
                other = [one for one, _ in known[peer]]
                low, high = stats.ratio_interval(other, ns)
                ratio = s.median / float(np.median(other))
                row["ratios"][peer] = {"ratio": ratio, "low": low, "high": high}
            made.append(row)
    return made


def show(rows: list[dict[str, Any]]) -> bool:
    """Prints the table. Returns whether every target is met."""
    print(f"{'chip':8} {'a submission':26} {'ns':>7} {'interval':>16} {'ioctls':>7}")
    for row in rows:
        ns = row["ns"]
        interval = f"[{ns['ci_low']:.0f}, {ns['ci_high']:.0f}]"
        line = f"{row['chip']:8} {row['side']:26} {ns['median']:7.0f} {interval:>16}"
        print(f"{line} {row['ioctls']:7.0f}")
    met = True
    for row in rows:
        for i, (peer, r) in enumerate(row["ratios"].items()):
            line = f"{row['chip']} {row['side']}: {r['ratio']:.2f} of {peer}"
            line += f" [{r['low']:.2f}, {r['high']:.2f}]"
            if i == 0:
                target = TARGETS[row["side"]]
                here = r["ratio"] <= target
                line += f"; expected at most {target}: {'yes' if here else 'no'}"
                met = met and here
            print(line)
    return met


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=(__doc__ or "").split("\n\n")[0],
        epilog="exit codes: 0 measured and every target met, 1 a wrong result or a target missed, "
        "2 usage, 3 no RADV",
    )
    made.add_argument("--chips", nargs="+", default=CHIPS, choices=CHIPS, metavar="CHIP")
    made.add_argument("--repetitions", type=int, default=20, help="processes of each side (20)")
    made.add_argument("--submissions", type=int, default=2000, help="per process (2000)")
    made.add_argument("--seed", type=int, default=1, help="of the order (1)")
    made.add_argument("--json", type=Path, metavar="FILE", help="write rows and samples")
    made.add_argument("--ours", nargs=2, metavar=("CHIP", "WAY"), help=argparse.SUPPRESS)
    return made


def main() -> int:
    top = parser()
    args = top.parse_args()
    if args.repetitions < 1 or args.submissions <= WARM_UP:
        top.error(f"expected --repetitions of 1 or more and --submissions above {WARM_UP}")
    if args.ours:
        chip, way = args.ours
        return ours(chip, way, args.submissions)
    if not radv.PRELOAD.exists():
        print(f"{radv.PRELOAD} is missing: make preload", file=sys.stderr)
        return NO_DEVICE
    try:
        found = take(args)
    except radv.mesa.Absent as absent:
        print(absent, file=sys.stderr)
        return NO_DEVICE
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return FAILED
    load = Path("/proc/loadavg").read_text().split()[0]
    print(
        f"{args.repetitions} x {args.submissions} submissions; load {load}, {os.cpu_count()} cores"
    )
    rows = table(found)
    met = show(rows)
    if args.json:
        out = {"env": env.describe(), "seed": args.seed, "rows": rows, "samples": found}
        if not output.save("amdgpu_submit.py", args.json, json.dumps(out, indent=1)):
            return FAILED
    return OK if met else FAILED


if __name__ == "__main__":
    sys.exit(output.guarded("amdgpu_submit.py", main))
