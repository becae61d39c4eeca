"""benchmarks/cpu_peers.py: what is verified before it is timed, and how ways take turns.

When this fails, a library is timed before its result was checked, or always goes first.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from peerskit import SMALL, measure, peer_process, reference

pytestmark = pytest.mark.setup


class Fake:
    """A peer whose ways give `results` and take `ns`."""

    def __init__(self, name, results, ns=None, log=None):
        self.name, self.results, self.ns = name, results, ns or {}
        self.log = [] if log is None else log

    def ask(self, do, **request):
        if do == "prepare":
            told = {}
            for at, (way, result) in enumerate(self.results.items()):
                file = Path(request["folder"]) / f"{self.name}.{at}.npy"
                np.save(file, result)
                told[way] = {"file": str(file), "statement": "f()"}
            return told
        if do == "drop":
            return {}
        self.log.append((self.name, request["way"]))
        took = self.ns[request["way"]]
        if isinstance(took, str):
            return {"error": took}
        return {"ns": [took] * request["blocks"]}


class Dead(Fake):
    def ask(self, do, **request):
        raise peer_process.Lost("ended with signal 11, saying nothing")


def rounds(stations, tmp_path, settings=measure.QUICK):
    want = reference.expected(SMALL, reference.operands(SMALL))
    return measure.case(SMALL, stations(want), settings, tmp_path, want)


def test_a_wrong_result_is_never_timed(tmp_path):
    log = []

    def stations(want):
        wrong = want.copy()
        wrong[3, 4] += 1
        ours = Fake("sparkle", {"checked": want}, {"checked": 100.0}, log)
        return [ours, Fake("numpy", {"good": want, "bad": wrong}, {"good": 200.0}, log)]

    found = rounds(stations, tmp_path)
    assert found["numpy bad"]["verdict"] == "wrong"
    assert found["numpy bad"]["error"] > 1e-3
    assert found["numpy bad"]["samples_ns"] == []
    assert ("numpy", "bad") not in log
    assert found["numpy good"]["samples_ns"] == [200.0] * len(found["numpy good"]["samples_ns"])
    assert list(tmp_path.glob("*.npy")) == []


def test_ours_has_the_stricter_limit(tmp_path):
    def stations(want):
        off = want + 1e-4 * np.sqrt(np.mean(want**2))
        return [Fake("sparkle", {"checked": off}), Fake("torch", {"mm": off}, {"mm": 1.0})]

    found = rounds(stations, tmp_path)
    assert (found["sparkle checked"]["verdict"], found["torch mm"]["verdict"]) == ("wrong", "right")


def test_who_dies_or_fails_is_told_and_the_others_go_on(tmp_path):
    def stations(want):
        some = Fake("torch", {"mm": want, "packed": want}, {"mm": 7.0, "packed": "OSError: no"})
        return [Dead("ncnn", {}), some]

    found = rounds(stations, tmp_path)
    assert found["ncnn all"]["why"] == "ended with signal 11, saying nothing"
    assert (found["torch packed"]["verdict"], found["torch packed"]["why"]) == (
        "failed", "OSError: no",
    )  # fmt: skip
    assert found["torch mm"]["samples_ns"]


def test_ways_take_turns(tmp_path):
    log = []

    def stations(want):
        return [Fake(name, {"x": want}, {"x": 1e9}, log) for name in ("a", "b", "c")]

    rounds(stations, tmp_path, measure.Settings(case_s=60, fewest=4, most=4))
    order = [name for name, _ in log[3:]]  # the first three look how long a call takes
    assert len(order) == 12
    assert all(sorted(order[at : at + 3]) == ["a", "b", "c"] for at in range(0, 12, 3))


@pytest.mark.parametrize(
    ("ns", "wanted"),
    [(400.0, (1000, 5, 1000)), (4e6, (1, 2, 1)), (3e8, (1, 1, 0)), (0.0, (400_000, 5, 400_000))],
)
def test_a_sample_takes_about_as_long_for_all(ns, wanted):
    assert measure.plan(ns) == wanted
