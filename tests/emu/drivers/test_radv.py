"""Unmodified RADV runs on the emulated GPU (tests/radv), and what judges it is in order.

When this fails, the emulator disagrees with an independent driver, so our own tests prove less.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import preload
import pytest
from where import ROOT

RADV = ROOT / "tests/radv"


def load(name: str, path: Path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_shaders_are_what_their_sources_say():
    make = load("radv_shaders_make", RADV / "shaders" / "make.py")
    assert (RADV / "shaders" / "SHA256SUMS").read_text() == make.sums()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_radv_computes_right():
    """Two chips, one queue of each, the other queue with the other Mesa.

    SPARKLE_RADV_CHIPS names cards, or says `all`: then both Mesas take both queues.
    """
    preload.library()
    chips = os.environ.get("SPARKLE_RADV_CHIPS", "")
    command = (
        sys.executable,
        str(RADV / "run.py"),
        *(("--chips", chips) if chips else ("--half",)),
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=850)
    print(done.stdout)
    verdict = done.stdout.strip().splitlines()[-1]
    found = re.fullmatch(r"(\d+) of (\d+) right, (\d+) skipped", verdict)
    assert found, verdict
    right, total, skipped = map(int, found.groups())
    assert done.returncode == 0
    assert right + skipped == total
    if skipped:
        reasons = [line for line in done.stdout.splitlines() if ": skipped" in line]
        pytest.skip(f"{verdict}: {'; '.join(reasons)}")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("card", ["gfx1103:kms-3.42", "gfx1030:se-3:cu-40:bar-256M"])
def test_radv_on_another_card(card, monkeypatch, capsys):
    """By the system's RADV, on each queue: harvested units, a small BAR, an old kernel."""
    preload.library()
    monkeypatch.syspath_prepend(str(RADV))
    run = load("radv_run", RADV / "run.py")
    try:
        driver, program = run.mesa.system(), run.build_program()
    except run.mesa.Absent as absent:
        pytest.skip(str(absent))
    for queue in run.QUEUES:
        assert run.run_shader(program, driver, card, queue, "vecadd"), capsys.readouterr().out


def test_a_chip_that_a_mesa_does_not_know_is_skipped(monkeypatch):
    monkeypatch.syspath_prepend(str(RADV))
    run = load("radv_run", RADV / "run.py")
    said = f"{run.UNKNOWN}: (150, 17)\n"
    monkeypatch.setattr(run, "run", lambda command, env: (1, said))
    driver = run.mesa.Mesa("any", {})
    assert run.run_shader(Path("no"), driver, "gfx1150", "gfx", "vecadd") is None
    monkeypatch.setattr(run, "run", lambda command, env: (1, "wrong vecadd"))
    assert run.run_shader(Path("no"), driver, "gfx1150", "gfx", "vecadd") is False


@pytest.mark.parametrize("chip", ["gfx1036"])  # the slow test takes gfx1100 too
def test_the_systems_radv_stores_and_loads_images(monkeypatch, capsys, chip):
    monkeypatch.syspath_prepend(str(RADV))
    preload.library()
    run = load("radv_run", RADV / "run.py")
    try:
        right = run.run_images(run.mesa.system(), chip, "compute")
    except run.mesa.Absent as absent:
        pytest.skip(str(absent))
    assert right, capsys.readouterr().out


def test_an_unknown_word_is_a_usage_error():
    done = subprocess.run(
        (sys.executable, str(RADV / "run.py"), "--only", "gfx9"), capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "gfx9: known are vecadd" in done.stderr


def test_the_callers_settings_do_not_reach_the_driver(monkeypatch):
    monkeypatch.syspath_prepend(str(RADV))
    run = load("radv_run", RADV / "run.py")
    for name in ("SPARKLE_EMU_MODE", "SPARKLE_EMU_TRACE", "VK_LAYER_PATH", "RADV_DEBUG"):
        monkeypatch.setenv(name, "lenient")
    seen = run.environment(run.mesa.Mesa("any", {"VK_DRIVER_FILES": "icd"}), "gfx1100")
    ours = {k: v for k, v in seen.items() if k.startswith(("SPARKLE_EMU", "VK_", "RADV_"))}
    assert ours == {"SPARKLE_EMU": "gfx1100", "VK_DRIVER_FILES": "icd"}
