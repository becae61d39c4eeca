"""The machine's own limits, measured in the same run by `bench.py peak -d cpu` in a child."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .station import pinned

_TOOL = Path(__file__).resolve().parents[2] / "tools" / "bench.py"
LIMIT_S = 120


def bench(arguments: Sequence[str], cpus: Sequence[int], env: Mapping[str, str]) -> dict[str, Any]:
    """The document that `bench.py ARGUMENTS --json` writes, run on `cpus`. RuntimeError: it
    fails.
    """
    out = Path(env["SPARKLE_HOME"]) / "bench.json"
    out.unlink(missing_ok=True)
    command = [sys.executable, str(_TOOL), *arguments, "-d", "cpu", "--json", str(out)]
    with pinned(cpus):
        try:
            done = subprocess.run(
                command, env=dict(env), capture_output=True, text=True, timeout=LIMIT_S
            )
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"bench.py {arguments[0]}: not done after {LIMIT_S:g} s") from None
    if not out.exists():
        said = done.stderr.strip().splitlines()[-1:] or ["nothing"]
        raise RuntimeError(f"bench.py {arguments[0]}: status {done.returncode}, {said[0][:300]}")
    document: dict[str, Any] = json.loads(out.read_text())
    return document


def measure(cpus: Sequence[int], env: Mapping[str, str], quick: bool) -> dict[str, float]:
    """GFLOPS "float32" and "float64" of FMAs, GB/s "copy" (best sustained rate of kernels that read
    and write, as bench.py's roofs) and "copy_f32" (median of the plain copy)."""
    told = bench(["peak", *(["--quick"] if quick else ["--timeout", "2"])], cpus, env)
    roof = told["roofs"]["cpu"]
    found = {"float32": roof["gflops"]["f32"], "float64": roof["gflops"]["f64"]}
    found["copy"] = roof["gbytes_per_s"]["copy"]
    for row in told["results"]:
        if row["kernel"] == "copy_f32" and row["gbytes_per_s"]:
            found["copy_f32"] = row["gbytes_per_s"]
    return found
