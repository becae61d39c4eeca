"""docs/architecture.md names the files that a launch and a `ctx.gemm` run through, and no other.
A launch passes few files until it calls the kernel, the driver or the ioctl.

When this fails, the launch path has grown, or its description misleads a contributor.

Python's are seen by sys.setprofile, C's counted by gcov in the build that `make check-c` makes. A
file of C is on the way when its lines run once more for each further call. In the same build each
function calls trace_order.c as it begins, so that it is known which files come before the kernel.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import fakecuda
import pytest
from where import ROOT

BUILD = ROOT / "build/strict"
pytestmark = pytest.mark.timeout(600)  # the build, where `make lint` has not made it
CHILD = Path(__file__).parent / "trace_calls.py"
MORE = 100  # calls
SOURCES = (".c", ".inc")  # functions in headers are details of those that include them
# Where the way of a call ends: (the file begins with, the function begins with). Behind it are the
# kernel's own files, the driver's, the emulator's.
ENDS = {
    "cpu": (r"native/cpu/(?!runtime/)", ""),
    "cuda": ("native/dl/", "sp_cuLaunchKernel"),
    "amdgpu": ("native/emu/", "call_ioctl"),
    "amdgpu-again": ("native/emu/", "call_ioctl"),
    "gemm": (r"native/cpu/(?!runtime/)", ""),
}
# Files. An "amdgpu" launch has numbers that its queue has not had yet, and is encoded.
MOST = {"cpu": 12, "cuda": 12, "amdgpu": 12, "amdgpu-again": 12, "gemm": 14}
# A wait may find its work done; until then it reads the clock, thousands of times in some runs. The
# repeated product was once seen to leave the pool out.
BY_CHANCE = {"native/core/spin.c", "native/core/base.c", "native/cpu/runtime/pool.c"}
SECTIONS = {
    "launch": "One launch, end to end",
    "first": "One `ctx.gemm`, end to end",
    "again": "The same `ctx.gemm` again",
}


@pytest.fixture(scope="module")
def built() -> Path:
    """The folder of the extensions with counters, made if something is stale."""
    subprocess.run(["make", "check-c"], cwd=ROOT, check=True, capture_output=True, timeout=500)
    return BUILD / "lib/sparkle_drv"


def environment(room: Path) -> dict[str, str]:
    """That of a child, whose counters go to `room`."""
    env = {**os.environ, "GCOV_PREFIX": str(room), "SPARKLE_HOME": str(room.parent / "home")}
    return env | {"SPARKLE_THREADS": "2", "SPARKLE_CPU_ISA": "ref", "PYTHONPATH": str(ROOT)}


def traced(built: Path, kind: str, count: int, room: Path) -> tuple[set[str], dict[str, int]]:
    """(files of Python that the last call ran through, how often lines of each C file ran)."""
    command = [sys.executable, str(CHILD), str(built), kind, str(count)]
    done = subprocess.run(
        command, env=environment(room), capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout)), counted(room)


def before_the_end(way: list, start: str, name: str) -> set[str]:
    """Files whose functions began before the one that is the end of the way.

    The calling thread goes on beside the kernel: what it does behind the backend's function is not
    on the way.
    """
    ends = (at for at, (file, function, *_) in enumerate(way)
            if re.match(start, file) and function.startswith(name))  # fmt: skip
    end = next(ends, None)
    assert end is not None, f"no call of {start}{name} among {way}"
    caller, beside = way[0][2], way[end][2] != way[0][2]
    files, backend, left = set(), 0, False
    for file, _, thread, depth in way[:end]:
        if beside and thread == caller:
            inside = re.match("native/(cpu|cuda|amdgpu)/", file)
            backend = backend or (depth if inside else 0)
            left = left or (not inside and depth <= backend)
            if left:
                continue
        if file.endswith(SOURCES) and not file.startswith("native/emu/"):
            files.add(file)
    return files


def usual(kind: str, built: Path, room: Path) -> list[str]:
    """The files that more than half of the calls of a kind pass until their end."""
    library = room / "order.so"
    command = ["gcc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", str(library)]
    subprocess.run([*command, str(CHILD.with_name("trace_order.c"))], check=True)
    env = environment(room) | {"LD_PRELOAD": str(library), "SPARKLE_LIBCUDA": fakecuda.library()}
    child = [sys.executable, str(CHILD.with_name("trace_ways.py")), str(built), kind]
    done = subprocess.run(child, env=env, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    times: Counter[str] = Counter()
    ways = json.loads(done.stdout)
    for python, way in ways:
        times.update({f"sparkle_drv/{path}" for path in python})
        times.update(before_the_end(way, *ENDS[kind]))
    return [path for path, seen in times.items() if seen > len(ways) / 2]


@pytest.mark.parametrize("kind", MOST)
def test_few_files_are_passed(built, kind, tmp_path):
    files = usual(kind, built, tmp_path)
    assert len(files) <= MOST[kind], "\n".join([f"{len(files)} files:", *files])
    assert any(path.startswith("native/hot/") for path in files)  # something was seen
    assert any(path.startswith("native/core/") for path in files)


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


def named(section: str) -> set[str]:
    """The files that a section names, as paths of the checkout."""
    text = (ROOT / "docs/architecture.md").read_text()
    _, found, rest = text.partition(f"\n## {section}\n")
    assert found, f"no section {section!r}"
    paths = re.findall(r"`(?!tests/)([\w/]+\.(?:py|c|inc))`", re.split(r"\n###? ", rest)[0])
    return {path if path.startswith("native/") else f"sparkle_drv/{path}" for path in paths}


@pytest.mark.parametrize("kind", SECTIONS)
def test_the_document_names_the_files_on_the_way(built, kind, tmp_path):
    if kind == "again":  # its profile must be the same in both runs below
        traced(built, kind, 1, tmp_path / "measured")
    python, once = traced(built, kind, 1, tmp_path / "once")
    way = {f"sparkle_drv/{path}" for path in python}
    listed = named(SECTIONS[kind])
    seen = {f"sparkle_drv/{path}" for path in python}
    if kind != "first":  # there, C does what the section on repeated calls says
        _, often = traced(built, kind, 1 + MORE, tmp_path / "often")
        grown = {path: ran - once.get(path, 0) for path, ran in often.items()}
        ours = {path for path in grown if path.startswith("native/") and path.endswith(SOURCES)}
        way |= {path for path in ours if grown[path] >= 0.9 * MORE}
        seen |= {path for path in ours if grown[path] > 0}
    assert listed - seen - BY_CHANCE == set(), "named, but nothing of it runs"
    assert way - listed - BY_CHANCE == set(), "runs, but the document does not name it"
