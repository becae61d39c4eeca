"""What runs the fuzzes: inputs are counted, and one that hangs or kills its process is named.

When this fails, a fuzz run hides the input that broke it.
"""

from __future__ import annotations

import os

import fuzzrun
import pytest


def fine(seed, number):
    return "even" if (seed + number) % 2 == 0 else "odd"


def hanging(seed, number):
    while number == 3:
        pass
    return "well"


def dying(seed, number):
    if number == 3:
        os._exit(1)
    return "well"


def test_outcomes_are_counted_over_all_processes(monkeypatch, capsys):
    monkeypatch.setattr(fuzzrun, "CHUNK", 4)
    assert fuzzrun.main(fine, "about", ["--count", "11", "--seed", "2", "--jobs", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "seed 2"
    assert [line.split() for line in lines[1:3]] == [["6", "even"], ["5", "odd"]]
    assert lines[3].startswith("11 inputs in ")


def test_an_input_that_hangs_is_named(monkeypatch):
    monkeypatch.setattr(fuzzrun, "LIMIT_S", 0.5)
    with pytest.raises(AssertionError, match=r"seed 9, input 3: Hang: no end after 0\.5 s"):
        # In a process of its own: one with many threads was seen not to be told of its CPU time.
        fuzzrun.main(hanging, "about", ["--count", "10", "--seed", "9", "--jobs", "1"])


def test_a_process_that_dies_is_told_with_its_inputs(monkeypatch):
    monkeypatch.setattr(fuzzrun, "CHUNK", 2)
    with pytest.raises(AssertionError, match=r"seed 9, inputs from [02]: a process died"):
        fuzzrun.main(dying, "about", ["--count", "8", "--seed", "9", "--jobs", "1"])
