"""Mesa's Clover runs OpenCL programs on the emulated GPU (tests/clover), in strict mode.

When this fails, the emulator disagrees with an independent driver, so our own tests prove less.
"""

from __future__ import annotations

import os
import subprocess
import sys

import preload
import pytest
from where import ROOT

CLOVER = ROOT / "tests/clover"
# What Mesa 22.3 calls them.
CHIPS = {"gfx1030": "navi21", "gfx1036": "gfx1036", "gfx1100": "gfx1100", "gfx1102": "gfx1102"}
# Clover's LLVM 15 gives VGPRs back while stores to scratch are under way; LLVM 17 does not, since
# D153295.
MODES = {"gfx1100": "dealloc", "gfx1102": "dealloc"}


# RADV runs on gfx1036 and gfx1100 beside these (test_radv.py).
OFTEN = ("gfx1030", "gfx1102")


@pytest.mark.parametrize(
    "chip", [c if c in OFTEN else pytest.param(c, marks=pytest.mark.long) for c in CHIPS]
)
def test_opencl_programs_compute_right(tmp_path, monkeypatch, chip):
    monkeypatch.syspath_prepend(str(CLOVER))
    from clover_driver import Absent, clover

    try:
        ours = clover(tmp_path)
    except Absent as absent:
        pytest.skip(str(absent))
    # PYTHONSAFEPATH, which `make asan` sets, hides the modules beside run.py.
    without = ("SPARKLE_EMU", "OCL_", "PYTHONSAFEPATH")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(without)}
    before = os.environ.get("LD_PRELOAD", "").split()  # a sanitizer's library must come first
    ours["LD_PRELOAD"] = " ".join([*before, str(preload.library())])
    done = subprocess.run(
        (sys.executable, str(CLOVER / "run.py")),
        cwd=tmp_path,
        env=kept
        | ours
        | {"SPARKLE_EMU": chip, "SPARKLE_EMU_MODE": MODES.get(chip, ""), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout, done.stderr
    name, *said = done.stdout.splitlines()
    assert f"({CHIPS[chip]}," in name
    assert [line for line in said if not line.endswith(": right")] == []
    assert (done.returncode, done.stderr) == (0, "")
