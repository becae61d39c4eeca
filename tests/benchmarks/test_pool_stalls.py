"""benchmarks/pool_stalls.py: it runs, checks its product, prints percentiles; no time is judged.

When this fails, the stall benchmark does not run, or times a wrong product.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from where import ROOT

SCRIPT = ROOT / "benchmarks" / "pool_stalls.py"


def run(*args: object, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, args)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={**os.environ, **env}, check=False
    )


NAMES = ("alone", "omp between", "omp beside", "pool beside", "region after gemm")


def test_percentiles_of_each_surrounding(tmp_path):
    out = tmp_path / "out.json"
    only = [word for name in NAMES for word in ("--only", name)]
    done = run("--threads", 2, "--size", 96, "--calls", 10, "--json", out, *only)
    assert done.returncode == 0, done.stderr
    written = json.loads(out.read_text())
    assert written["unit"] == "us"
    assert tuple(written["rows"]) == NAMES
    for name, row in written["rows"].items():
        assert list(row) == ["p50", "p90", "p99", "p99.9", "p100"]
        assert 0 < row["p50"] <= row["p90"] <= row["p99"] <= row["p100"]
        assert name in done.stdout


def test_without_an_openmp_compiler_it_says_what_is_not_measured(tmp_path):
    gcc = tmp_path / "gcc"
    gcc.write_text("#!/bin/sh\nexit 1\n")
    gcc.chmod(0o755)
    done = run("--calls", 2, "--size", 16, "--only", "omp beside", PATH=f"{tmp_path}:/usr/bin:/bin")
    assert done.returncode == 0
    assert "omp beside          not measured" in done.stdout


@pytest.mark.parametrize("wrong", [("--only", "nobody"), ("--threads", "many")])
def test_usage(wrong):
    assert run(*wrong).returncode == 2
