"""benchmarks/mesh.py in small: its figures are there, and a wrong sum is not timed.

When this fails, the mesh benchmark times wrong sums.
"""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def mesh(monkeypatch):
    import mesh as script
    from _mesh import plans, real

    def run(*words):
        monkeypatch.setattr("sys.argv", ["mesh.py", *map(str, words)])
        return script.main()

    run.plans, run.real = plans, real
    return run


@pytest.mark.unmeasured
def test_figures(mesh, monkeypatch, capsys, tmp_path):
    for section in (mesh.plans, mesh.real):
        monkeypatch.setattr(section, "MIB", 1 << 14)
    path = tmp_path / "f.json"
    sections = "--only", "plans", "--only", "real"
    words = "--sets", 2, "--rounds", 2, "--devices", "cpu,egl:0", "--json", path
    assert mesh(*sections, *words) == 0
    figures = json.loads(path.read_text())
    assert len(figures) == len(capsys.readouterr().out.splitlines()) >= 20
    assert figures["predicted / best algorithm alone, 1 KiB to 256 MiB, 3 sets, worst"] <= 1.05
    assert figures["predicted / messages that must follow, 4 KiB, 2 to 16 places, worst"] <= 1.1


def test_a_graph_on_simulated_devices(mesh, capsys):
    assert mesh("--only", "graphs", "--devices", "cpu") == 0
    name, _, figure = capsys.readouterr().out.strip().partition(": ")
    assert name == "graph of two chains on simulated devices, simulated / predicted"
    assert float(figure) == pytest.approx(1, abs=0.02)


def test_a_wrong_sum_is_not_timed(mesh, monkeypatch, capsys):
    monkeypatch.setattr(mesh.real, "MIB", 1 << 10)
    monkeypatch.setattr(mesh.real, "_numpy", lambda rows: None)
    assert mesh("--only", "real", "--devices", "cpu,egl:0") == 1
    told = capsys.readouterr().err
    assert "cpu: expected numpy's sum of the arrays, got another: nothing is timed" in told


def test_what_cannot_be(mesh, capsys):
    assert mesh("--only", "real", "--devices", "quantum:0") == 3
    with pytest.raises(SystemExit) as leave:
        mesh("--rounds", 0)
    assert leave.value.code == 2
    assert "quantum" in capsys.readouterr().err
