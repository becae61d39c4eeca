"""benchmarks/shards.py in small: its figures are there, and a wrong product is not timed.

When this fails, the benchmark of shared calls times wrong products.
"""

from __future__ import annotations

import json

import pytest
from _inside.shards import plan_quality

import sparkle_drv as sp


@pytest.fixture
def bench(monkeypatch):
    import shards as script
    from _shards import faults, planning, real

    def run(*words):
        monkeypatch.setattr("sys.argv", ["shards.py", *map(str, words)])
        return script.main()

    monkeypatch.setattr(faults, "STALLED", 20)
    monkeypatch.setattr(planning, "CALLS", 3)
    monkeypatch.setattr(planning, "WARM", 3)
    run.faults, run.real = faults, real
    return run


@pytest.mark.unmeasured
def test_figures(bench, capsys, tmp_path):
    path = tmp_path / "f.json"
    words = "--seeds", 4, "--rounds", 2, "--side", 256, "--json", path
    assert bench(*words) == 0
    figures = json.loads(path.read_text())
    assert len(figures) == len(capsys.readouterr().out.splitlines()) >= 28
    assert figures["pieces written twice"] == 0
    assert 0 < figures["gap to the bound, %, 4 drawn machines, worst"] <= 15
    assert figures["those calls"].startswith("9 of ")  # three ways, three calls each
    assert any("cpu:c0 + cpu:c1/ref" in name for name in figures)


def test_pieces_that_are_written_twice_are_counted(bench):
    counted = plan_quality.Counted()
    with plan_quality.written(counted):
        once = plan_quality.Pieces._write
        plan_quality.Pieces._write = lambda *given: (once(*given), once(*given))
        bench.faults._run(1, [1e6, 1e6], 0, None, counted)
    assert counted.twice == counted.pieces > 2
    assert counted.calls == 3


def test_a_wrong_product_is_not_timed(bench, monkeypatch, capsys):
    monkeypatch.setattr(bench.real.np, "allclose", lambda *given, **named: False)
    assert bench("--only", "real", "--side", 64) == 1
    assert "expected numpy's product, got another: nothing is timed" in capsys.readouterr().err


def test_what_cannot_be(bench, monkeypatch, capsys):
    def gone(*given):
        raise sp.DeviceNotFound("quantum:0 is not there")

    monkeypatch.setattr(bench.real, "_timed", gone)
    assert bench("--only", "real") == 3
    assert "quantum" in capsys.readouterr().err
    with pytest.raises(SystemExit) as leave:
        bench("--side", 0)
    assert leave.value.code == 2
