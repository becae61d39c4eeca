"""The Makefile's help, and what needs no set-up: the scripts parse, loc.py counts.

When this fails, `make help` lacks a target, or a script does not parse.
"""

from __future__ import annotations

import subprocess

import pytest
from where import ROOT

pytestmark = pytest.mark.setup


def test_every_make_target_is_declared_and_helped():
    command = ["make", "--no-print-directory", "help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    offered = {line.split()[0] for line in done.splitlines()}
    wanted = "quick help build bench test format perf wheel docs asan tsan preload test-radv gen"
    wanted += " bringup-archive fake-cuda gpu-kit golden-llvm shaders fuzz fuzz-elf fuzz-pm4"
    wanted += (
        " fuzz-arrays fuzz-faults fuzz-mesh fuzz-shards random-calls loc test-fresh clean peers"
    )
    wanted += " cuda-sweep lowered way wheels test-setup test-foreign"
    wanted += " test-free-threaded test-radv-chips fuzz-isa fuzz-cluster test-long fuzz-strict"
    assert offered == set(wanted.split())
    phony = next(x for x in (ROOT / "Makefile").read_text().splitlines() if x.startswith(".PHONY"))
    assert offered <= set(phony.split())


@pytest.mark.parametrize("script", [".ci/run", "tools/test_fresh.sh"])
def test_scripts_parse(script):
    subprocess.run(["bash", "-n", str(ROOT / script)], check=True)


def test_loc_counts_layers(tmp_path):
    (tmp_path / "native" / "cpu").mkdir(parents=True)
    (tmp_path / "native" / "cpu" / "a.c").write_text("x\n" * 3)
    (tmp_path / "native" / "cpu" / "b.c").write_text("x\n" * 401)
    done = subprocess.run(
        ["python3", str(ROOT / "tools" / "loc.py"), "--root", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert done[1].split() == ["native/cpu", "2", "404", "202", "401", "native/cpu/b.c"]
    assert done[-1] == "over 400: 401 native/cpu/b.c"
