"""The machine's roofs, which a child process measures in the same run by `bench.py peak -d cpu`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .peer_process import pinned

_TOOL = Path(__file__).resolve().parents[2] / "tools" / "bench.py"
LIMIT_S = 120


def bench(arguments: Sequence[str], cpus: Sequence[int], env: Mapping[str, str]) -> dict[str, Any]:
    """Runs `bench.py ARGUMENTS --json` on the cores `cpus` and returns its document. Raises
    RuntimeError if it fails.
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
            raise RuntimeError(
                f"bench.py {arguments[0]}: still running after {LIMIT_S:g} s"
            ) from None
    if not out.exists():
        said = done.stderr.strip().splitlines()[-1:] or ["nothing"]
        raise RuntimeError(
            f"bench.py {arguments[0]}: status {done.returncode} and no results file; "
            f"its last message was {said[0][:300]}"
        )
    document: dict[str, Any] = json.loads(out.read_text())
    return document


def measure(cpus: Sequence[int], env: Mapping[str, str], quick: bool) -> dict[str, float]:
    """Returns the roofs of the machine: "float32" and "float64" are GFLOPS of FMAs.

    "copy" is the best sustained GB/s of kernels that read and write, as in bench.py's roofs.
    "copy_f32" is the median GB/s of the plain copy.
    """
    told = bench(["peak", *(["--quick"] if quick else ["--timeout", "2"])], cpus, env)
    roof = told["roofs"]["cpu"]
    found = {"float32": roof["gflops"]["f32"], "float64": roof["gflops"]["f64"]}
    found["copy"] = roof["gbytes_per_s"]["copy"]
    for row in told["results"]:
        if row["kernel"] == "copy_f32" and row["gbytes_per_s"]:
            found["copy_f32"] = row["gbytes_per_s"]
    return found
