"""benchmarks/strided.py in small: a line for each view, and a wrong result is not timed.

When this fails, the benchmark of views times wrong copies.
"""

from __future__ import annotations

import pytest


@pytest.fixture
def strided(monkeypatch):
    import strided as script

    def run(*words):
        monkeypatch.setattr("sys.argv", ["strided.py", *map(str, words)])
        return script.main()

    run.script = script
    return run


def test_figures(strided, capsys):
    assert strided("--size", 32, "--rounds", 2) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "numpy / cpu, transpose", "numpy / cpu, columns 8", "numpy / cpu, columns ",
        "numpy / cpu, columns ", "numpy / cpu, transpose of four dimensions",
    ]  # fmt: skip


def test_a_wrong_result_is_not_timed(strided, monkeypatch):
    right = strided.script.sp.ops.strided_copy

    def wrong(dev, dst, src, shape, **more):
        return right(dev, dst, src, shape)

    monkeypatch.setattr(strided.script.sp.ops, "strided_copy", wrong)
    with pytest.raises(SystemExit, match=r"cpu: .* is wrong"):
        strided("--size", 32, "--rounds", 1)


def test_what_cannot_be(strided, capsys):
    assert strided("--device", "quantum:0") == 3
    with pytest.raises(SystemExit) as leave:
        strided("--size", 17)
    assert leave.value.code == 2
    assert "quantum" in capsys.readouterr().err
