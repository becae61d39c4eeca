"""benchmarks/pipeline_overlap.py run for real with tiny sizes: its environment, its files and exit
codes. What it measures is for whoever runs it: no time is asserted.

When this fails, the overlap benchmark does not run for whoever repeats it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from uris import OF_TOOLS
from where import ROOT

pytestmark = pytest.mark.devices(*OF_TOOLS)

SCRIPT = ROOT / "benchmarks" / "pipeline_overlap.py"
TINY = ("--size", "24", "--steps", "7", "--rounds", "6", "--timeout", "1")


def run(*words, **env):
    return subprocess.run(
        [sys.executable, SCRIPT, *map(str, words)],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_every_loop_is_verified_and_written(device, tmp_path):
    out = tmp_path / "o.json"
    done = run("-d", device.uri, *TINY, "--depths", "1,3", "--json", out)
    assert done.returncode == 0, done.stderr
    assert "every result verified" in done.stdout
    document = json.loads(out.read_text())
    assert document["device"] == device.uri
    assert [row["depth"] for row in document["loops"]] == [0, 1, 3]
    for row in document["loops"]:
        assert len(row["samples_s"]) == len(document["loops"][0]["samples_s"]) >= 1
        assert row["ratio"] > 0
        if row["ratio_low"] is not None:
            assert 0 < row["ratio_low"] <= row["ratio_high"]
        assert 0 <= row["slots_in_flight"] <= row["depth"]
        assert 0 <= row["acquires_that_waited"] <= 1


def test_it_starts_itself_again_with_one_thread(tmp_path):
    """Whatever the environment said, and before any driver could have read it."""
    out = tmp_path / "o.json"
    done = run("-d", "cpu", *TINY, "--json", out, SPARKLE_THREADS="2", OPENBLAS_NUM_THREADS="2")
    assert done.returncode == 0, done.stderr
    env = json.loads(out.read_text())["env"]
    assert env["sparkle_environment"]["SPARKLE_THREADS"] == "1"
    assert env["peer_environment"]["OPENBLAS_NUM_THREADS"] == "1"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--help",), 0, "exit codes: 0 well"),
        (("-d", "cpu:7"), 3, "cpu:7"),
        (("--size", "0"), 2, "expected a whole number from 1 to 2**20"),
        (("--depths", "2,x"), 2, "--depths"),
        (("--steps", "4"), 2, "expected more than the slots"),
        (("-d", "cpu", *TINY, "--at-most", "1e-9"), 1, "of the serial time at best"),
        (("-d", "cpu", *TINY, "--json", "/no/such/folder/o"), 2, "cannot write"),
    ],
)
def test_exit_codes(words, code, said):
    done = run(*words)
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_result_ends_it(monkeypatch):
    """The judge that every frame goes through before anything is timed."""
    from _overlap import steps

    import sparkle_drv as sp

    with sp.open("cpu") as dev:
        work = steps.Work(dev, 16, seed=3)
        for step in (0, 9):
            work.fill(work.alone, step)
            work.queue.submit(work.alone.commands).wait()
            y = work.result(work.alone)
            work.judge(y, step, "serial")
            with pytest.raises(ValueError, match=r"serial, step .*: y\[0\]"):
                work.judge(y, step + 1, "serial")
            y[3, 5] += 0.5
            with pytest.raises(ValueError, match=r"y\[53\]"):
                work.judge(y, step, "serial")


@pytest.mark.parametrize(
    ("starved", "counted", "aside"),
    [
        (lambda run: 0.0, 2, 0),
        (lambda run: 9.0, 4, 0),  # never calm: all there is counts
        (lambda run: 9.0 * (run < 6), 2, 2),  # two runs to be judged, then two a round
    ],
)
def test_rounds_without_a_core_are_set_aside(monkeypatch, starved, counted, aside):
    from _overlap import loops

    runs = []

    def once(*_):
        runs.append(loops.Run(1.0, [1.5], 0.5, starved(len(runs))))
        return runs[-1]

    monkeypatch.setattr(loops, "serial", once)
    monkeypatch.setattr(loops, "pipelined", once)
    clock = iter(range(100))
    monkeypatch.setattr(loops.time, "monotonic", lambda: next(clock))
    rounds, others = loops.measure(None, 5, rounds=2, depths=[2], timeout_s=4)
    assert (len(rounds), len(others)) == (counted, aside)
    assert all(set(taken) == {0, 2} for taken in [*rounds, *others])
