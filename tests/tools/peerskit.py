"""benchmarks/cpu_peers.py for the tests of it: its modules, and what several of those share."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tools")]

import against  # noqa: E402
import cpu_peers  # noqa: E402
import tile_model  # noqa: E402
from _cpu_peers import (  # noqa: E402
    NAMES,
    base,
    cases,
    child,
    environment,
    figures,
    measure,
    reference,
    report,
    roofs,
    shows,
    station,
)

__all__ = [
    "ALL", "NAMES", "ROOF", "ROOT", "SMALL", "against", "base", "cases", "child", "cpu_peers",
    "environment", "figures", "measure", "reference", "report", "roofs", "shows", "station",
    "tile_model",
]  # fmt: skip

ALL = cases.all_cases()
SMALL = ALL["gemm f32 8x8x8"]
ROOF = {"float32": 100.0, "float64": 50.0, "copy": 40.0, "copy_f32": 30.0}
