"""benchmarks/cpu_peers.py for the tests of it: its modules, and what several of those share."""

from __future__ import annotations

import against
import cpu_peers
import tile_model
from _against import rows
from _cpu_peers import (
    NAMES,
    base,
    cases,
    child,
    environment,
    figures,
    goals,
    measure,
    peer_process,
    reference,
    report,
    roofs,
)
from where import ROOT

__all__ = [
    "ALL", "NAMES", "ROOF", "ROOT", "SMALL", "against", "base", "cases", "child", "cpu_peers",
    "environment", "figures", "goals", "measure", "peer_process", "reference", "report",
    "roofs", "rows", "tile_model",
]  # fmt: skip

ALL = cases.all_cases()
SMALL = ALL["gemm f32 8x8x8"]
ROOF = {"float32": 100.0, "float64": 50.0, "copy": 40.0, "copy_f32": 30.0}
