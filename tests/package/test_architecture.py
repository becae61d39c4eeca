"""docs/architecture.md names the files that a launch and a `ctx.gemm` run through, and no other.

Python's are seen by sys.setprofile, C's counted by gcov in the build that `make check-c` makes. A
file of C is on the way when its lines run once more for each further call.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from where import ROOT

BUILD = ROOT / "build/strict"
pytestmark = pytest.mark.timeout(600)  # the build, where `make lint` has not made it
CHILD = Path(__file__).parent / "trace_calls.py"
MORE = 100  # calls
SOURCES = (".c", ".inc")  # functions in headers are details of those that include them
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


def traced(built: Path, kind: str, count: int, room: Path) -> tuple[set[str], dict[str, int]]:
    """(files of Python that the last call ran through, how often lines of each C file ran)."""
    env = {**os.environ, "GCOV_PREFIX": str(room), "SPARKLE_HOME": str(room.parent / "home")}
    env |= {"SPARKLE_THREADS": "2", "SPARKLE_CPU_ISA": "ref", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(CHILD), str(built), kind, str(count)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout)), counted(room)


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
    assert listed - seen == set(), "named, but nothing of it runs"
    assert way - listed == set(), "runs, but the document does not name it"
