"""Mesa's dumps of IBs, by unmodified drivers on the emulated GPU, hold what was submitted.

When this fails, dumps of Mesa are read as other packets than it submitted.

RADV's hang report and radeonsi's AMD_DEBUG=ib are compared with a recording of the same run.
"""

from __future__ import annotations

import os
import subprocess
import sys

import preload
import pytest
from where import ROOT

from sparkle_drv import lowlevel

CHIP = "gfx1036"
RADV, CLOVER = ROOT / "tests/radv", ROOT / "tests/clover"


def run(command, folder, **settings):
    """Its stderr; all that the drivers write lies in `folder`."""
    dropped = ("SPARKLE_EMU", "SPARKLE_REC", "RADV_", "AMD_", "OCL_", "VK_", "PYTHONSAFEPATH")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    before = os.environ.get("LD_PRELOAD", "").split()  # a sanitizer's library must come first
    ours = {
        "LD_PRELOAD": " ".join([*before, str(preload.library())]),
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "SPARKLE_EMU": f"record:{CHIP}",
        "SPARKLE_RECORD": str(folder / "all.rec"),
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env=kept | ours | settings,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.stderr


def submitted(folder):
    """Dwords of all IBs of the recording, without the fillers behind them."""
    ibs = lowlevel.read_ibs((folder / "all.rec").read_bytes(), form="capture")
    return [stripped(ib) for ib in ibs]


def stripped(ib):
    dwords = list(ib.dwords)
    while dwords and dwords[-1] == 0xFFFF1000:
        dwords.pop()
    return dwords


def test_a_hang_report_of_radv(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(RADV))
    import mesa
    import run as radv

    try:
        program, driver = radv.build_program(), mesa.system()
    except mesa.Absent as absent:
        pytest.skip(str(absent))
    said = run(
        (str(program), str(RADV / "shaders"), "vecadd", "compute"),
        tmp_path,
        **driver.environment,
        RADV_DEBUG="hang",
        SPARKLE_EMU_JOB_LIMIT_S="0.00001",  # so that the job counts as hung
    )
    assert b"GPU hang report saved" in said, said
    [path] = tmp_path.glob("radv_dumps_*/trace.log")
    [ib] = lowlevel.read_ibs(path.read_bytes(), gfx=10)
    assert (ib.ip, ib.complete) == ("compute", True)
    assert stripped(ib) in submitted(tmp_path)

    import pm4 as tool

    assert tool.main(["decode", str(path), "--gfx", CHIP]) == 0
    text = capsys.readouterr()[0]
    assert "NOP payload=0xcafe0001  # Mesa's trace point 1\n" in text
    assert text.count("DISPATCH_DIRECT") == 1


def test_the_ibs_of_radeonsi(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(CLOVER))
    from clover_driver import Absent, clover

    try:
        ours = clover(tmp_path)
    except Absent as absent:
        pytest.skip(str(absent))
    said = run((sys.executable, str(CLOVER / "run.py")), tmp_path, **ours, AMD_DEBUG="ib")
    found = lowlevel.read_ibs(said, gfx=10)
    assert len(found) > 20
    held = submitted(tmp_path)
    assert [ib for ib in found if stripped(ib) not in held] == []
    assert not [one for one in lowlevel.lint(found, ["padding"]) if one.fails]
