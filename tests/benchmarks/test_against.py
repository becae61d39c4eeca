"""benchmarks/against.py: which rows it takes, what it prints, and how it ends.

When this fails, a regression between two revisions is missed or invented.
"""

import os

import numpy as np
import pytest
from _against import calls
from peerskit import ROOT, SMALL, against, base, cases, child, measure, rows

pytestmark = pytest.mark.setup

USAGE = 2
LAUNCHES = [name for name in rows.ROWS if name.startswith("launch ")]


class Fake:
    """A build whose calls take a given time; its results are right."""

    def __init__(self, name, ns):
        self.name, self.ns = name, ns

    def ask(self, do, **request):
        if do == "prepare":
            return {"checked": {"statement": "f()"}} if self.ns else {"error": "it ended"}
        return {"ns": [self.ns] * request["blocks"]} if do == "time" else {}


def row(tmp_path, now_ns, then_ns):
    builds = [Fake("sparkle", now_ns), Fake(against.BEFORE, then_ns)]
    return against.compared(rows.ROWS["launch one"], builds, measure.QUICK, tmp_path)


def test_a_row_has_the_ratio_of_both(tmp_path):
    found = row(tmp_path, 3e3, 2e3)
    assert found["ways"]["checked"]["ratio"] == 1.5
    assert found["ways"]["checked"]["low"] == found["ways"]["checked"]["high"] == 1.5
    (line,) = against.told(found)
    assert "launch one" in line
    assert "1.500" in line


def test_a_build_that_fails_is_told(tmp_path):
    (line,) = against.told(row(tmp_path, 3e3, 0))
    assert "before there is no such way" in line


def test_rows_by_name():
    names = [case.name for case in against.chosen(["^launch", "gemm f32 8x8x8"])]
    assert names == ["gemm f32 8x8x8", *LAUNCHES]
    assert len(against.chosen([])) == len(cases.all_cases()) + len(rows.ROWS)
    for wrong in ("(", "no such row"):
        with pytest.raises(against.UsageError, match="NAME"):
            against.chosen([wrong])


def test_wrong_usage_is_one_line(capsys):
    assert against.main(["no-such-commit"]) == USAGE
    assert against.main(["HEAD", "--threads", "0"]) == USAGE
    said = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in said] == ["against.py"] * 2


@pytest.mark.parametrize("threads", [1, 2])
def test_every_row_of_ours_is_right(threads, tmp_path):
    """In a process of its own. With one core, both devices of a shared call are that core."""
    cores = sorted(os.sched_getaffinity(0))[-threads:]
    build = against.Build("sparkle", ROOT, len(cores), cores, tmp_path)
    try:
        for name in rows.ROWS:
            said = build.ask("prepare", case=name, folder=str(tmp_path))
            assert "error" not in said, (name, said)
            for way, entry in said.items():
                assert "statement" in entry, (name, way, entry)
                (ns,) = build.ask("time", way=way, calls=1, blocks=1, warm=0)["ns"]
                assert ns > 0, (name, way)
    finally:
        build.close()


def test_a_wrong_result_of_ours_is_no_row():
    way = calls.verified("sum", "got[0] = x + 1", {"x": np.ones(3)}, np.full(3, 2.1))
    exec(way.statement, dict(way.names))
    with pytest.raises(ValueError, match="sum: expected an error of at most"):
        way.result()
    way.names["got"][0] = np.full(3, 2.1)
    way.result()
    way.poison()
    with pytest.raises(ValueError, match="got inf"):
        way.result()


def test_a_row_may_have_a_clock_of_its_own(tmp_path):
    class Slow(base.Peer):
        def ways(self, case, operands):
            now = [0.0]

            def run():
                now[0] += 3.0

            way = base.Way("run()", {"run": run}, lambda: None, clock=lambda: now[0])
            return [("checked", lambda: way)]

    worker = child.Worker("slow", Slow())
    worker.prepare(SMALL.name, str(tmp_path))
    assert worker.time("checked", calls=2, blocks=2, warm=1) == {"ns": [3e9, 3e9]}
