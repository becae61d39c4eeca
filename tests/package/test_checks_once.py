"""Each check of a launch stands once: without it, the wrong call passes by every way.

When this fails, a check of a launch stands twice, and the copies drift apart.

CHECKS says where a check stands. A copy of the package is built without that line
(removed_check.py). There probe_checks.py makes the wrong call by each way. If one of them still
raises, there is a second copy of the check.
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
LAUNCHES = ("launch", "prepare", "commands")
PLANS = ("plan", "bind", "image-plan", "image-bind")
ALL = LAUNCHES + PLANS
OPERATIONS = ("gemm", "conv2d", "map", "reduce", "layout")
EVERYBODY = ALL + OPERATIONS + tuple(f"ctx-{name}" for name in OPERATIONS)
WHOSE = "its == Py_None ? SP_REFUSED_CLOSED : SP_REFUSED_ELSEWHERE;"
CHECKS = {
    "closed": (EVERYBODY, Plant(PACK, WHOSE, "its == Py_None ? 0 : SP_REFUSED_ELSEWHERE;")),
    "elsewhere": (EVERYBODY, Plant(PACK, WHOSE, "its == Py_None ? SP_REFUSED_CLOSED : 0;")),
    "elements": (ALL, Plant(PACK, "if (!(p->elements & arg->elements))", "if (0)")),
    "read-only": (ALL, Plant(PACK, "if (arg->is_written && p->elements & HOT_READONLY_BIT)",
                             "if (0)")),
    "arguments": (LAUNCHES, Plant(PACK, "if (nargs != p->sig.nargs)", "if (0)")),
    "range": (LAUNCHES, Plant("native/hot/launch/scalar.c", "    return fits;", "    return 1;")),
    "extent": (ALL, Plant("native/core/extents.h", "if (rc == 0 && needed > covered)", "if (0)",
                          "native/core/signature.c")),
    "group size": (LAUNCHES, Plant("native/cpu/runtime/replay.c",
                                   " || threads > MAX_GROUP_THREADS", "")),
    "epoch": (("prepare", "commands", "bind"),
              Plant("native/core/queue.h",
                    "else if (epoch != SP_ANY_EPOCH && atomic_load(&q->device->epoch) != epoch)",
                    "else if (0)", "native/cpu/runtime/queue.c")),
    "overlap": (PLANS,
                Plant("sparkle_drv/ops/calls/prepared_call.py",
                      "if out is not None and staging.meets(out, operands):", "if False:")),
}  # fmt: skip


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
    ways, plant = CHECKS[check]
    there = told(check, ways, ROOT)
    assert all(there.values()), there
    missing = told(check, ways, removed_check.package(plant, tmp_path))
    assert not any(missing.values()), f"there is a second {check!r}: {missing}"
