"""Each check of a launch stands once: without it, the wrong call passes by every way.

When this fails, a check of a launch stands twice, and the copies drift apart.

CHECKS says where a check stands: on the line that its source marks `fault: NAME`. A copy of the
package is built without that line (removed_check.py). There probe_checks.py makes the wrong call by
each way. If one of them still raises, there is a second copy of the check.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import removed_check
from removed_check import Plant
from where import ROOT

PACK = "native/hot/launch/pack.c"
NOTHING = "{}"
LAUNCHES = ("launch", "prepare", "commands")
PLANS = ("plan", "bind", "image-plan", "image-bind")
ALL = LAUNCHES + PLANS
OPERATIONS = ("gemm", "conv2d", "map", "reduce", "layout")
EVERYBODY = ALL + OPERATIONS + tuple(f"ctx-{name}" for name in OPERATIONS)
CHECKS = {
    "closed": (EVERYBODY, PACK, "return 0;"),
    "elsewhere": (EVERYBODY, PACK, "return 0;"),
    "elements": (ALL, PACK, NOTHING),
    "read-only": (ALL, PACK, NOTHING),
    "arguments": (LAUNCHES, PACK, NOTHING),
    "range": (LAUNCHES, "native/hot/launch/scalar.c", "return 1;"),
    "extent": (ALL, "native/core/extents.h", NOTHING),
    "group size": (LAUNCHES, "native/cpu/runtime/replay.c", NOTHING),
    "epoch": (("prepare", "commands", "bind"), "native/core/queue.h", NOTHING),
    "overlap": (PLANS, "sparkle_drv/ops/calls/prepared_call.py", "if False:"),
}
COMPILED = {
    "native/core/extents.h": "native/core/signature.c",
    "native/core/queue.h": "native/cpu/runtime/queue.c",
}


def told(check: str, ways: tuple[str, ...], package: Path) -> dict[str, str]:
    """Way -> the error that the wrong call raises; "": none, or the process ended."""
    env = os.environ | {"PYTHONPATH": str(package), "PYTHONSAFEPATH": "1"}
    found: dict[str, str] = {}
    while left := [way for way in ways if way not in found]:
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests/package/probe_checks.py"), check, *left],
            env=env, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        rows = [line.partition(" ") for line in done.stdout.splitlines()]
        assert rows, done.stderr
        found |= {way: error for way, _, error in rows}
    return found


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_that_is_taken_away_is_missing_everywhere(check, tmp_path):
    ways, path, instead = CHECKS[check]
    plant = Plant(path, check, instead, COMPILED.get(path, path))
    there = told(check, ways, ROOT)
    assert all(there.values()), there
    missing = told(check, ways, removed_check.package(plant, tmp_path))
    assert not any(missing.values()), f"there is a second {check!r}: {missing}"
