"""benchmarks/arrays.py in small: a line for each figure, and a wrong result is not timed.

When this fails, a figure of operators in the docs may rest on a wrong result.
"""

from __future__ import annotations

import pytest


@pytest.fixture
def arrays(monkeypatch):
    import arrays as script

    def run(*words):
        monkeypatch.setattr("sys.argv", ["arrays.py", *map(str, words)])
        return script.main()

    monkeypatch.setattr(script, "CALLS", 3)
    run.script = script
    return run


def test_figures(arrays, capsys):
    assert arrays("--size", 32, "--elements", 1000, "--rounds", 2) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "numpy / cpu, transpose", "numpy / cpu, columns 8", "numpy / cpu, columns ",
        "numpy / cpu, columns ", "numpy / cpu, transpose of four dimensions",
        "operators / map on cpu", "x + y on cpu, build", "x + y on cpu, build and run",
    ]  # fmt: skip


def test_a_wrong_copy_is_not_timed(arrays, monkeypatch):
    right = arrays.script.sp.ops.strided_copy

    def wrong(dev, dst, src, shape, **more):
        return right(dev, dst, src, shape)

    monkeypatch.setattr(arrays.script.sp.ops, "strided_copy", wrong)
    with pytest.raises(SystemExit, match=r"cpu: .* is wrong"):
        arrays("--size", 32, "--rounds", 1)


def test_wrong_operators_are_not_timed(arrays, monkeypatch):
    monkeypatch.setattr(arrays.script.sp.ops, "map", lambda dev, text, x, y: x + y)
    with pytest.raises(SystemExit, match="got right=False"):
        arrays("--size", 32, "--elements", 10, "--rounds", 1)


def test_what_cannot_be(arrays, capsys):
    assert arrays("--device", "quantum:0") == 3
    with pytest.raises(SystemExit) as leave:
        arrays("--size", 17)
    assert leave.value.code == 2
    assert "quantum" in capsys.readouterr().err
