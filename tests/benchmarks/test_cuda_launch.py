"""benchmarks/cuda_launch.py on the fake driver: its rows and exit codes. No time is asserted.

When this fails, the published launch cost on NVIDIA counts something else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import fakecuda
from where import ROOT

SCRIPT = ROOT / "benchmarks" / "cuda_launch.py"


def run(*words, **environment):
    return subprocess.run(
        [sys.executable, SCRIPT, *words], env=os.environ | environment,
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


def test_rows(tmp_path):
    fakecuda.library()
    out = tmp_path / "o.json"
    done = run("--fake", "--rounds", "6", "--launches", "20", "--json", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    rows = {row["row"]: row for row in json.loads(out.read_text())["rows"]}
    assert {f"sparkle_drv, {n} arguments" for n in (0, 4, 16)} | {"sparkle_drv, prepared"} <= set(
        rows
    )
    assert all(len(row["samples_ns"]) == 6 and min(row["samples_ns"]) > 0 for row in rows.values())


def test_mistakes():
    assert run("--launches", "5000").returncode == 2
    done = run(FAKE_CUDA="devices 0", SPARKLE_LIBCUDA=fakecuda.library())
    assert done.returncode == 3
    assert "cuda_launch.py" in done.stderr
