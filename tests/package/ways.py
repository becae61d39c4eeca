"""The files that a call passes through, as `make way CALL=KIND` prints them.

Python's are seen by sys.setprofile, C's in the build that `make check-c` makes. A call of WHOLE is
followed to its result. There gcov counts lines: a file of C is on the way when its lines run once
more for each further call. Of the first `ctx.gemm` only the files of Python count.

The other kinds end where they call the kernel, the driver or the ioctl. There each function of C
calls trace_order.c as it begins, so that it is known which files come before.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path

import fakecuda
from where import ROOT

HERE = Path(__file__).parent
BUILT = ROOT / "build/strict/lib/sparkle_drv"
WHOLE = ("launch", "first", "again")
# Where the way of a call ends: (the file begins with, the function begins with). Behind it are the
# kernel's own files, the driver's, the emulator's.
ENDS = {
    "cpu": (r"native/cpu/(?!runtime/)", ""),
    "cuda": ("native/dl/", "sp_cuLaunchKernel"),
    "amdgpu": ("native/emu/", "call_ioctl"),
    "amdgpu-again": ("native/emu/", "call_ioctl"),
    "gemm": (r"native/cpu/(?!runtime/)", ""),
}
MORE = 100  # calls
SOURCES = (".c", ".inc")  # functions in headers are details of those that include them
# A wait may find its work done; until then it reads the clock, thousands of times in some runs. The
# repeated product was once seen to leave the pool out.
BY_CHANCE = {"native/core/spin.c", "native/core/base.c", "native/cpu/runtime/pool.c"}


@cache
def build() -> None:
    """Makes the extensions with counters, if something is stale."""
    subprocess.run(["make", "check-c"], cwd=ROOT, check=True, capture_output=True, timeout=500)


def files(kind: str, room: Path) -> list[str]:
    """The files on the way of a call of this kind."""
    build()
    return whole(kind, room) if kind in WHOLE else until_the_end(kind, room)


def environment(room: Path) -> dict[str, str]:
    """That of a child, whose counters go to `room`."""
    env = {**os.environ, "GCOV_PREFIX": str(room), "SPARKLE_HOME": str(room.parent / "home")}
    return env | {"SPARKLE_THREADS": "2", "SPARKLE_CPU_ISA": "ref", "PYTHONPATH": str(ROOT)}


def child(script: str, *words: str, env: dict[str, str]) -> list:
    """What a script of this folder prints, which runs with the extensions built for this."""
    command = [sys.executable, str(HERE / script), str(BUILT), *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def whole(kind: str, room: Path) -> list[str]:
    """The files that each call passes until its result, but for BY_CHANCE."""

    def counts(count: int, name: str) -> tuple[list[str], dict[str, int]]:
        python = child("trace_calls.py", kind, str(count), env=environment(room / name))
        return [f"sparkle_drv/{path}" for path in python], counted(room / name)

    if kind == "again":  # its profile must be the same in both runs below
        counts(1, "measured")
    python, once = counts(1, "once")
    if kind == "first":  # there, C does what it does for a repeated call
        return python
    _, often = counts(1 + MORE, "often")
    grown = {path: ran - once.get(path, 0) for path, ran in often.items() if path not in BY_CHANCE}
    ours = [path for path in grown if path.startswith("native/") and path.endswith(SOURCES)]
    return python + sorted(path for path in ours if grown[path] >= 0.9 * MORE)


def counted(room: Path) -> dict[str, int]:
    """C file -> how often its lines ran. gcov wants notes beside the counters: links to them."""
    counters = sorted(room.rglob("*.gcda"))
    for path in counters:
        notes = Path("/", path.relative_to(room)).with_suffix(".gcno")
        path.with_suffix(".gcno").symlink_to(notes)
    done = subprocess.run(
        ["gcov", "--json-format", "--stdout", *map(str, counters)],
        cwd=ROOT, capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    ran: dict[str, int] = {}
    for line in done.stdout.splitlines():
        for file in json.loads(line)["files"]:
            total = sum(entry["count"] for entry in file["lines"])
            ran[file["file"]] = ran.get(file["file"], 0) + total
    return ran


def until_the_end(kind: str, room: Path) -> list[str]:
    """The files that more than half of the calls of a kind pass until their end."""
    library = room / "order.so"
    command = ["gcc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", str(library)]
    subprocess.run([*command, str(HERE / "trace_order.c")], check=True)
    env = environment(room) | {"LD_PRELOAD": str(library), "SPARKLE_LIBCUDA": fakecuda.library()}
    times: Counter[str] = Counter()
    ways = child("trace_ways.py", kind, env=env)
    for python, way in ways:
        times.update(f"sparkle_drv/{path}" for path in python)
        times.update(before_the_end(way, *ENDS[kind]))
    return [path for path, seen in times.items() if seen > len(ways) / 2]


def before_the_end(way: list, start: str, name: str) -> list[str]:
    """Files whose functions began before the one that is the end of the way, in this order.

    The calling thread goes on beside the kernel: what it does behind the backend's function is not
    on the way.
    """
    ends = (at for at, (file, function, *_) in enumerate(way)
            if re.match(start, file) and function.startswith(name))  # fmt: skip
    end = next(ends, None)
    assert end is not None, f"no call of {start}{name} among {way}"
    caller, beside = way[0][2], way[end][2] != way[0][2]
    passed: dict[str, None] = {}
    backend, left = 0, False
    for file, _, thread, depth in way[:end]:
        if beside and thread == caller:
            inside = re.match("native/(cpu|cuda|amdgpu)/", file)
            backend = backend or (depth if inside else 0)
            left = left or (not inside and depth <= backend)
            if left:
                continue
        if file.endswith(SOURCES) and not file.startswith("native/emu/"):
            passed[file] = None
    return list(passed)


def main() -> None:
    kinds = sys.argv[1:]
    if unknown := set(kinds) - {*WHOLE, *ENDS}:
        sys.exit(f"expected {', '.join([*WHOLE, *ENDS])}, got {', '.join(sorted(unknown))}")
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder:
            passed = files(kind, Path(folder))
        print(f"{kind}: {len(passed)} files", *passed, sep="\n    ")


if __name__ == "__main__":
    main()
