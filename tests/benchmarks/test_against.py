"""benchmarks/against.py: which rows it takes, what it prints, and how it ends.

When this fails, a regression between two revisions is missed or invented.
"""

import pytest
from peerskit import against, cases, measure

pytestmark = pytest.mark.setup

USAGE = 2


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
    return against.compared(cases.find("launch one"), builds, measure.QUICK, tmp_path)


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
    assert names == ["gemm f32 8x8x8", *cases.LAUNCHES]
    assert len(against.chosen([])) == len(cases.all_cases()) + len(cases.LAUNCHES)
    for wrong in ("(", "no such row"):
        with pytest.raises(against.UsageError, match="NAME"):
            against.chosen([wrong])


def test_wrong_usage_is_one_line(capsys):
    assert against.main(["no-such-commit"]) == USAGE
    assert against.main(["HEAD", "--threads", "0"]) == USAGE
    said = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in said] == ["against.py"] * 2
