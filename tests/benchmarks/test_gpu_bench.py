"""benchmarks/gpu_*.py and gpu_run.sh over the fake CUDA driver, in processes of their own.

When this fails, an hour on a rented GPU ends without figures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import fakecuda
import gpu_conformance
import gpu_kernels
import gpu_kit
import gpu_peers
import numpy as np
import pytest
from _gpu_peers import child, images, table
from where import ROOT

FEW = ("launch_0_ns", "launch_4_ns", "launch_16_ns", "launch_sync_ns", "prepared_4_ns", "start_s",
       "rss_mib", "h2d_pageable_4096_ns", "d2h_pinned_32768_ns", "d2d_4096_ns", "alloc_free_ns",
       "ptx_cold_ns", "ptx_cached_ns")  # fmt: skip


def tool(name, *args, **environment):
    env = {**os.environ, "PYTHONPATH": f"{ROOT}", **environment}
    command = [sys.executable, str(ROOT / "benchmarks" / name), "--no-reexec", *args]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=100)


def test_peers_over_the_fake(tmp_path):
    out, text = tmp_path / "peers.json", tmp_path / "peers.md"
    done = tool(
        "gpu_peers.py", "--libcuda", fakecuda.library(), "--quick", "--repetitions", "2",
        "--peers", "c,sparkle,torch", "--json", str(out), "--md", str(text),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    assert (result["label"], result["quick"], result["device"]) == ("fake", True, "Fake H200")
    for name in ("c", "sparkle"):
        peer = result["peers"][name]
        assert peer["repetitions"] == 2
        assert peer["errors"] == {}
        assert [f for f in FEW if not peer["median"].get(f, 0) > 0] == []
        assert len(peer["samples"]["launch_4_ns"]) == 2
    assert "**These are figures of a fake driver: no GPU took part.**" in text.read_text()


def test_peers_wants_names_that_there_are(capsys):
    assert gpu_peers.main(["--peers", "c,fortran"]) == 2
    assert "no such peer: fortran" in capsys.readouterr().err


class Scripted:
    """A runner whose peers say what they are told to say, those of a list one after the other."""

    def __init__(self, **says):
        self.says, self.asked = says, []

    def once(self, name):
        self.asked.append(name)
        says = self.says[name]
        return says.pop(0) if isinstance(says, list) else says


def test_peers_are_interleaved_and_who_is_absent_is_asked_once():
    told = {"version": "1", "values": {"launch_4_ns": 5.0}, "errors": {"graph_1_ns": "no"}}
    runner = Scripted(a=told, b=told, c={"absent": "not here"})
    found = gpu_peers.summary(gpu_peers.run(runner, ["a", "b", "c"], 3, 60))
    assert "".join(runner.asked) == "abcbaab"
    assert found["a"]["samples"] == {"launch_4_ns": [5.0] * 3}
    assert found["c"] == {"absent": "not here"}


TOLD = {"version": "1", "values": {"launch_4_ns": 5.0}, "errors": {}}
LATE = {"failed": "not done after 40 s"}


def test_a_peer_whose_first_run_fails_is_asked_once_more():
    """The first import of torch from a cold disk may take longer than a run may."""
    runner = Scripted(a=[LATE, TOLD, TOLD], b=LATE, c=[TOLD, LATE, TOLD])
    found = gpu_peers.summary(gpu_peers.run(runner, ["a", "b", "c"], 3, 60))
    assert "".join(sorted(runner.asked)) == "aaabbccc"
    assert (found["a"]["repetitions"], found["c"]["repetitions"]) == (2, 2)
    assert found["b"] == {"absent": LATE["failed"]}


def test_peers_are_kept_after_every_run_and_gone_on_with():
    kept = []

    def keep(told):
        kept.append(json.loads(json.dumps(told)))
        if len(kept) == 4:
            raise KeyboardInterrupt

    runner = Scripted(a=TOLD, b=TOLD, c={"absent": "not here"})
    with pytest.raises(KeyboardInterrupt):
        gpu_peers.run(runner, ["a", "b", "c"], 3, 60, keep=keep)
    assert [sum(map(len, told.values())) for told in kept] == [1, 2, 3, 4]
    runner.asked.clear()
    told = gpu_peers.run(runner, ["a", "b", "c"], 3, 60, kept[-1])
    assert "".join(sorted(runner.asked)) == "aab"
    assert {name: len(runs) for name, runs in told.items()} == {"a": 3, "b": 3, "c": 1}


def test_runs_of_another_machine_are_not_gone_on_with(tmp_path):
    file = tmp_path / "peers.json"
    known = {"device": "D", "driver": "1", "label": "measured", "commit": "abc"}
    file.write_text(json.dumps({**known, "quick": False, "runs": {"a": [TOLD]}}))
    assert gpu_peers.earlier(str(file), known, False) == {"a": [TOLD]}
    assert gpu_peers.earlier(str(file), known, True) == {}
    for key in known:
        assert gpu_peers.earlier(str(file), {**known, key: "other"}, False) == {}
    file.write_text("{")
    assert gpu_peers.earlier(str(file), known, False) == {}
    assert gpu_peers.earlier(str(tmp_path / "none"), known, False) == {}


def test_peers_stop_when_the_time_is_over(monkeypatch):
    clock = iter(range(0, 10000, 10))
    monkeypatch.setattr(gpu_peers.time, "monotonic", lambda: next(clock))
    runner = Scripted(a={"version": "1", "values": {}, "errors": {}})
    assert 1 <= len(gpu_peers.run(runner, ["a"], 50, 105)["a"]) < 10
    late = gpu_peers.run(Scripted(), ["a"], 1, 5)
    assert gpu_peers.summary(late) == {"a": {"absent": "the time was over before"}}


def test_a_figure_that_takes_long_gets_no_more_rounds(monkeypatch):
    calls = []
    child.whole(lambda: calls.append(0), lambda: None, 5)
    assert len(calls) == 6, "one warms up"
    monkeypatch.setattr(child, "FIGURE_NS", 0)
    child.whole(lambda: calls.append(1), lambda: None, 5)
    assert sum(calls) == 2


def test_a_peer_that_dies_or_says_nothing_has_failed(tmp_path):
    runner = gpu_peers.Runner(tmp_path, "", None, quick=True)
    assert runner._told(["false"])["failed"] == "ended with status 1, saying nothing"
    assert "saying oh" in runner._told(["sh", "-c", "echo oh >&2"])["failed"]
    assert runner.once("c") == {"absent": "no C compiler, and no program given"}


def test_a_peer_that_does_not_end_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_peers, "CHILD_S", 0.2)
    runner = gpu_peers.Runner(tmp_path, "", None, quick=True)
    assert "not done after" in runner._told(["sleep", "100"])["failed"]


def test_table():
    peer = {
        "version": "2",
        "median": {"launch_4_ns": 1234.0, "h2d_pinned_1073741824_ns": 2e7, "rss_mib": 20.0},
        "errors": {"graph_10_ns": "no graphs"},
    }
    other = {"version": "3", "median": {"graph_10_ns": 5000.0}, "errors": {}}
    facts = {
        "label": "measured", "quick": False, "device": "D", "driver": "CUDA 1", "commit": "abc",
        "kernel_driver": "", "date": "now", "host": {"cpu": "C", "cores": 2, "python": "3"},
    }  # fmt: skip
    lines = table.markdown(
        {**facts, "peers": {"a": peer, "b": other, "c": {"absent": "no such module"}}}
    ).splitlines()
    assert [line for line in lines if line.startswith("|")] == [
        "| | a 2 | b 3 |",
        "|---|---:|---:|",
        "| rss, MiB | 20 |  |",
        "| launch 4, us | 1.23 |  |",
        "| graph 10, us | failed | 5 |",
        "| h2d pinned 1 GiB, us | 20,000 |  |",
    ]
    assert "* absent: c: no such module" in lines
    assert not [line for line in lines if "fake" in line]


def test_images():
    for count, types in images.TYPES.items():
        assert images.empty(count).count(b".param") == count == len(types.split())
        assert len(images.arguments(count, ["m"])) == count
    fresh = images.unseen(images.empty(4), "a-b").decode()
    assert "sparkle_a_b = 1;\n.visible .entry noop(" in fresh
    assert fresh.endswith("\0")


def test_kernels_over_the_fake(tmp_path):
    out = tmp_path / "kernels.json"
    done = tool("gpu_kernels.py", "--quick", "--json", str(out), SPARKLE_LIBCUDA=fakecuda.library())
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(out.read_text())
    names = [row["name"] for row in result["rows"]]
    assert names == ["copy by the driver", "copy_f32", "saxpy_f32", "gemm_f32", "gemm_f64",
                     "conv2d_f32", "overlap", "overhead"]  # fmt: skip
    assert result["fake"]
    assert result["finished"]
    assert "A fake driver: no GPU took part." in done.stdout


def test_a_wrong_result_is_not_timed(monkeypatch, cpu):
    def timed(*_):
        raise AssertionError("it was timed")

    monkeypatch.setattr(gpu_kernels, "timed", timed)
    monkeypatch.setattr(gpu_kernels.np, "einsum", lambda *_: np.zeros(gpu_kernels.SAMPLES))
    with pytest.raises(gpu_kernels.Wrong, match="gemm_f32 64"):
        gpu_kernels.gemm(cpu, "f32", 64)


@pytest.mark.parametrize("iters", [0, 1, 2, 1000])
def test_chain(iters):
    x = 1
    for _ in range(iters):
        x = (1664525 * x + 1013904223) % 2**32
    assert gpu_kernels.chain(iters) == x


def test_conformance_on_the_cpu(tmp_path, capsys):
    out = tmp_path / "c.json"
    assert gpu_conformance.main(["cpu", "--covers", "memory", "--json", str(out)]) == 0
    assert json.loads(out.read_text())["counts"]["passed"] > 5
    assert "passed" in capsys.readouterr().out
    assert gpu_conformance.main(["cuda:99"]) == 3
    assert gpu_conformance.main(["egl:0", "--gpu"]) == 3  # software, or no GL at all


@pytest.fixture
def kit(monkeypatch):
    """Steps that only leave a file."""

    def step(name):
        return lambda kit, *_: (kit / name).write_bytes(b"x")

    for name in ("package", "wheels", "loader", "baseline"):
        monkeypatch.setattr(gpu_kit, name, step(name))
    return monkeypatch


def test_kit(tmp_path, kit, capsys):
    assert gpu_kit.main([], tmp_path / "kit") == 0
    assert {"package", "wheels", "loader", "baseline", "commit"} == {
        path.name for path in (tmp_path / "kit").iterdir()
    }
    assert "of at most 53" in capsys.readouterr().out


def test_kit_without_what_is_nice_to_have(tmp_path, kit, capsys):
    def fails(*_):
        raise OSError("no apt here")

    kit.setattr(gpu_kit, "loader", fails)
    kit.setenv("PATH", "")  # no git either
    assert gpu_kit.main([], tmp_path / "kit") == 0
    assert (tmp_path / "kit" / "commit").read_text() == "unknown\n"
    assert "the GL loader: no apt here" in capsys.readouterr().err
    kit.setattr(gpu_kit, "package", fails)
    assert gpu_kit.main([], tmp_path / "kit") == 1


def test_kit_that_is_too_large(tmp_path, kit):
    kit.setattr(gpu_kit, "MOST_MIB", 0)
    assert gpu_kit.main([], tmp_path / "kit") == 1
