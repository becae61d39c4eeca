"""benchmarks/amdgpu_submit.py: every side verified, one ioctl a submission, ratios of medians.

When this fails, the published cost of a submission on AMD counts something else.
"""

from __future__ import annotations

import importlib.util
import sys

import preload
import pytest
from where import ROOT

FILE = ROOT / "benchmarks" / "amdgpu_submit.py"
COUNT = 130


@pytest.fixture(scope="module")
def tool():
    path, modules = list(sys.path), set(sys.modules)
    spec = importlib.util.spec_from_file_location("amdgpu_submit", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = path
    for name in ("run", "mesa"):
        if name not in modules:
            sys.modules.pop(name, None)


@pytest.mark.parametrize("way", ["c", "go", "submit"])
@pytest.mark.parametrize("chip", ["gfx1036", "gfx1100"])
def test_ours_is_right_and_two_ioctls_a_submission(tool, capsys, chip, way):
    assert tool.ours(chip, way, COUNT) == 0
    *lines, verdict = capsys.readouterr().out.splitlines()
    assert verdict == "right vecadd"
    taken = [tuple(map(int, line.split())) for line in lines]
    assert len(taken) == COUNT
    assert all(0 < inside < ns for ns, inside, _ in taken)
    # A fence that is late is asked about now and then; a submission itself asks for evictions, and
    # is submitted.
    assert sorted(ioctls for *_, ioctls in taken)[COUNT // 2] == 2


def test_a_wrong_result_is_no_measurement(tool):
    for said in ("1 0 1\\nwrong vecadd", "", "right"):
        with pytest.raises(RuntimeError, match="exit code"):
            tool.measured((sys.executable, "-c", f"print('{said}')"), None)


def test_a_process_counts_by_its_medians_without_the_first(tool):
    program = "\n".join([*["print(9000, 0, 7)"] * tool.WARM_UP, "print(50, 20, 1)", "print(1)"])
    program = program.replace("print(1)", "print('right')").replace("'right'", "'right x'")
    assert tool.measured((sys.executable, "-c", program), None) == (30, 1)


def test_ratios_are_of_the_medians(tool, capsys):
    ours, theirs = [(480.0, 1.0)] * 9, [(1200.0, 2.0)] * 9
    sides = {tool.C: ours, tool.SUBMIT: theirs, "RADV 1": theirs, "RADV 2": ours}
    rows = tool.table({"gfx1100": sides})
    assert [row["ns"]["median"] for row in rows] == [480, 1200, 1200, 480]
    assert rows[0]["ratios"]["RADV 1"] == {"ratio": 0.4, "low": 0.4, "high": 0.4}
    assert rows[2]["ratios"] == {}
    assert tool.show(rows)  # beside the first RADV, that is
    said = capsys.readouterr().out
    assert f"{tool.C}: 0.40 of RADV 1 [0.40, 0.40]; expected at most 0.45: yes\n" in said
    assert f"{tool.SUBMIT}: 2.50 of RADV 2 [2.50, 2.50]\n" in said
    assert not tool.show(tool.table({"gfx1100": {tool.GO: theirs, "RADV 1": theirs}}))
    assert "expected at most 0.45: no" in capsys.readouterr().out


@pytest.mark.slow
def test_radv_is_measured_through_the_same_seam(tool):
    preload.library()
    try:
        program = tool.radv.build_program()
        driver = tool.radv.mesa.system()
    except tool.radv.mesa.Absent as absent:
        pytest.skip(str(absent))
    shown = (str(program), str(tool.radv.HERE / "shaders"), "vecadd", "compute", str(COUNT))
    code, said = tool.radv.run(shown, tool.radv.environment(driver, "gfx1100"))
    assert code == 0, said
    *lines, verdict = said.splitlines()
    assert verdict.startswith("right vecadd")
    taken = [tuple(map(int, line.split())) for line in lines]
    assert len(taken) == COUNT
    assert all(0 < inside < ns and ioctls == 1 for ns, inside, ioctls in taken)
