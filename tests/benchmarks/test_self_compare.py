"""self_compare.py: what it plants is right and slow, or its counts would say nothing.

When this fails, the counts of false alarms say nothing about bench.py compare.
"""

from __future__ import annotations

import time
import timeit

import pytest
import self_compare
from _bench.rows import results
from _console.problems import UsageError


@pytest.mark.parametrize("extra", [0.0, self_compare.PLANTED])
def test_both_forms_of_the_kernel_are_right(tmp_path, extra):
    """And are rows of one name, with a reference beside them, that compare can match."""
    folder = self_compare.compiled(tmp_path / "form", extra)
    (row,) = self_compare.measured(folder, tmp_path / "o.json", 0.1)["results"]
    assert row["verified"]
    assert row["probes"]
    assert results.load(tmp_path / "o.json")["results"] == [row]


def test_without_a_compiler_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(self_compare.shutil, "which", lambda name: None)
    with pytest.raises(UsageError, match="C compiler"):
        self_compare.compiled(tmp_path / "form", 0.0)


def test_the_planted_build_spins(monkeypatch):
    """In each block of calls, for a share of what the calls took."""
    monkeypatch.setattr(timeit, "Timer", timeit.Timer)
    exec(self_compare.SPIN.format(1.0), {})
    start = time.perf_counter()
    told = timeit.Timer("sleep(0.01)", globals={"sleep": time.sleep}).timeit(2)
    assert time.perf_counter() - start >= told >= 0.04


def test_busy_loops_end_with_the_run():
    with self_compare.load(1):
        pass
    with pytest.raises(KeyError), self_compare.load(1):
        raise KeyError
