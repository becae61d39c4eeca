"""benchmarks/mesh.py in small: its figures are there, and a wrong sum is not timed."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def mesh(monkeypatch):
    import mesh as script

    def run(*words):
        monkeypatch.setattr("sys.argv", ["mesh.py", *map(str, words)])
        return script.main()

    run.script = script
    return run


def test_figures(mesh, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(mesh.script, "MIB", 1 << 14)
    path = tmp_path / "f.json"
    assert mesh("--sets", 2, "--rounds", 2, "--devices", "cpu,egl:0", "--json", path) == 0
    figures = json.loads(path.read_text())
    assert len(figures) == len(capsys.readouterr().out.splitlines()) == 11
    assert figures["predicted / best algorithm alone, 1 KiB to 256 MiB, worst"] <= 1.05
    assert figures["predicted / messages that must follow, 4 KiB, 2 to 16 places, worst"] <= 1.1


def test_a_wrong_sum_is_not_timed(mesh, monkeypatch):
    monkeypatch.setattr(mesh.script, "MIB", 1 << 10)
    monkeypatch.setattr(mesh.script, "_numpy", lambda rows: None)
    with pytest.raises(SystemExit, match="cpu: the sum is wrong"):
        mesh("--sets", 0, "--devices", "cpu,egl:0")


def test_what_cannot_be(mesh, capsys):
    assert mesh("--devices", "quantum:0") == 3
    with pytest.raises(SystemExit) as leave:
        mesh("--rounds", 0)
    assert leave.value.code == 2
    assert "quantum" in capsys.readouterr().err
