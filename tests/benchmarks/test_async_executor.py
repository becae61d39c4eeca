"""benchmarks/async_executor.py run for real with tiny sizes: its files and exit codes. No time is
asserted.

When this fails, the benchmark of the asynchronous executor does not run for whoever repeats it.
"""

from __future__ import annotations

import functools
import json

import fakecuda
import forked
import pytest
from uris import OF_TOOLS
from where import ROOT

pytestmark = pytest.mark.devices(*OF_TOOLS)

SCRIPT = ROOT / "benchmarks" / "async_executor.py"
TINY = ("--n", "300", "--frames", "7", "--rounds", "6")


@pytest.fixture(scope="module")
def run():
    with forked.Server("sparkle_drv.testing", "_bench.commands.runner") as python:
        yield functools.partial(python.run, SCRIPT)


def judge(done, out, uri):
    assert done.returncode == 0, done.stderr
    assert "every way verified" in done.stdout
    (one,) = json.loads(out.read_text())["devices"]
    assert one["device"] == uri
    assert [row["way"] for row in one["ways"]] == ["synchronous", "batched", "triple-buffered"]
    for row in one["ways"]:
        assert len(row["samples_s"]) == 6
        assert row["frames_a_s"] > 0
        assert row["ratio"] >= 0


def test_every_way_is_verified_and_written(run, device, tmp_path):
    out = tmp_path / "o.json"
    judge(run("-d", device.uri, *TINY, "--json", out), out, device.uri)


def test_on_the_fake_driver(run, tmp_path):
    fakecuda.library()
    out = tmp_path / "o.json"
    judge(run("--fake", "--fake-times", "", *TINY, "--json", out), out, "cuda:0")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--help",), 0, "exit codes: 0 well"),
        (("-d", "cpu:7"), 3, "cpu:7"),
        (("--n", "0"), 2, "1 to 2**24"),
        (("-d", "cpu", *TINY, "--at-most", "0.0000001"), 1, "of the synchronous overhead"),
    ],
)
def test_exit_codes(run, words, code, said):
    done = run(*words)
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
