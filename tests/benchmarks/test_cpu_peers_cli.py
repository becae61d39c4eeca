"""benchmarks/cpu_peers.py from its command line.

When this fails, a comparison that took hours ends without its file.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

import numpy as np
import pytest
from peerskit import (
    NAMES,
    ROOF,
    ROOT,
    base,
    cases,
    cpu_peers,
    environment,
    goals,
    peer_process,
    roofs,
)

pytestmark = pytest.mark.setup


def test_what_bench_says_when_it_fails(tmp_path):
    env = environment.cleaned(os.environ, 1, tmp_path, [ROOT])
    with pytest.raises(RuntimeError, match=r"bench\.py tune: status 2"):
        roofs.bench(["tune", "no_such_kernel"], sorted(os.sched_getaffinity(0))[-1:], env)


def run(*words):
    return cpu_peers.main([*words, "--threads", "1"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--peers", "numpy,fortran"), "--peers: 'fortran' is none of sparkle, "),
        (("--only", "("), "--only"),
        (("--only", "no such case"), "no case has a name that matches 'no such case'"),
        (("--threads", "5000"), "--threads: expected 1 to"),
        (("--threads", "one"), "numbers like 1,2"),
        (("--md", "no/such/folder/x.md"), "its folder does not exist"),
        (("--md", "x.md", "--json", "x.md"), "must be different files"),
    ],
)
def test_wrong_usage_is_one_line(words, said, capsys):
    assert cpu_peers.main([*words, "--list"] if "--peers" in words else list(words)) == 2
    assert said in capsys.readouterr().err


def test_list_names_the_cases(capsys):
    assert run("--list", "--only", "copy") == 0
    assert capsys.readouterr().out == "map copy 10M\n"


@pytest.fixture
def roofless(monkeypatch):
    """The peak is bench.py's business and takes seconds; no peer but those of this Python."""
    monkeypatch.setattr(roofs, "measure", lambda cpus, env, quick: ROOF)
    monkeypatch.setattr(peer_process, "interpreter", lambda name: sys.executable)
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")


@pytest.mark.usefixtures("roofless")
def test_a_run_with_numpy_alone(tmp_path, capsys):
    out, text = tmp_path / "peers.json", tmp_path / "peers.md"
    only = "gemm f32 8x8x8|gemm f64 16x16x16|map (four|transcendental) 1k"
    code = run("--quick", "--only", only, "--peers", "sparkle,numpy,ncnn", "--json", str(out),
               "--md", str(text), "--label", "a test")  # fmt: skip
    printed = capsys.readouterr()
    assert code == 0, printed.err
    told = json.loads(out.read_text())
    assert told["schema"] == 1
    assert told["removed"]["OPENBLAS_CORETYPE"] == "Haswell"
    assert "OPENBLAS_CORETYPE=Haswell" in printed.err
    assert told["peers"]["ncnn"]["absent"].startswith("ModuleNotFoundError")
    assert told["peers"]["numpy"] == {"version": np.__version__}
    assert [one["case"] for one in told["rows"]] == [case.name for case in cases.select(only)]
    for one in told["rows"]:
        for way, entry in one["ways"].items():
            assert entry["verdict"] == "right", way
            assert 0 <= entry["error"] <= entry["limit"]
            assert len(entry["samples_ns"]) >= 2
        best = one["ratios"]["best"]
        assert best["low"] <= best["ratio"] <= best["high"]
        assert best["of"].startswith("numpy ")
    assert {"sparkle checked", "sparkle plan", "sparkle bind", "numpy matmul"} == set(
        told["rows"][0]["ways"]
    )
    assert told["roofs"] == {"1": ROOF}
    assert {line["what"] for line in told["shows"]["1"]} >= {"gemm 8 cubed: np.matmul(out=)"}
    assert printed.out.strip() == text.read_text().strip()
    assert "A trial" not in printed.out
    assert "ncnn: absent, ModuleNotFoundError" in printed.out


@pytest.mark.usefixtures("roofless")
def test_a_convolution_of_ours_in_both_layouts(tmp_path):
    out = tmp_path / "peers.json"
    code = run("--quick", "--only", "3x3 512->512 @7 N=1|depthwise 512.* @14 N=1", "--peers",
               "sparkle", "--json", str(out))  # fmt: skip
    assert code == 0
    rows = json.loads(out.read_text())["rows"]
    ways = {"sparkle checked", "sparkle out=", "sparkle NHWC"}
    assert [set(one["ways"]) for one in rows] == [ways] * 2
    assert all(entry["verdict"] == "right" for one in rows for entry in one["ways"].values())


@pytest.mark.usefixtures("roofless")
def test_without_ours_or_with_a_line_that_does_not_hold_it_fails(tmp_path, monkeypatch):
    words = ("--quick", "--only", "gemm f32 8x8x8", "--json", str(tmp_path / "x.json"))
    assert run(*words, "--peers", "numpy") == 1
    never = goals.Line("never", ">= 1x", "0x", False)
    monkeypatch.setattr(goals, "lines", lambda rows, roofs: [never])
    assert run(*words, "--peers", "sparkle") == 0
    assert run(*words, "--peers", "sparkle", "--check") == 3


@pytest.mark.usefixtures("roofless")
def test_when_the_time_is_over_the_rest_is_missing(tmp_path):
    out = tmp_path / "x.json"
    words = ("--quick", "--only", "f32 (8|16)x(8|16)x(8|16)$", "--json", str(out))
    assert run(*words, "--peers", "sparkle", "--budget-s", "0") == 1
    told = json.loads(out.read_text())
    assert (told["interrupted"], told["rows"]) == (True, [])


def test_every_peer_has_its_module_and_is_pinned():
    pins = (ROOT / "benchmarks/_cpu_peers/requirements.txt").read_text()
    for name in NAMES:
        made = importlib.import_module(f"_cpu_peers.{name}").PEER
        assert issubclass(made, base.Peer)
        assert name == "sparkle" or f"\n{name}==" in pins
