"""Every subcommand run for real on the cpu with tiny sizes: what it prints, writes and returns.

When this fails, a subcommand of bench.py ends without its table or with the wrong exit code.
"""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time

import pytest
from _bench.commands import runner
from _bench.jobs import cache_reach
from _bench.machine import env, headroom
from _bench.rows import results
from where import ROOT

import sparkle_drv as sp
from sparkle_drv.backends import machine

TOOLS = ROOT / "tools"
TINY = ("--quick", "--timeout", "0.05")


def lines(capsys):
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.out.splitlines(), captured.err.splitlines()


def test_run_prints_what_it_writes(bench, tmp_path, capsys):
    out = tmp_path / "o.json"
    words = ("-a", "n=24", "-a", "size=8", "-a", "c=4", "-a", "h=6", "-a", "w=6", "-a", "oc=2")
    files = ("--json", out, "--csv", tmp_path / "o.csv", "--md", tmp_path / "o.md")
    names = ("saxpy", "gemm", "conv2d", "reduce_sum")
    assert bench("run", *names, *words, *TINY, *files, "--seed", 7) == 0
    printed, complaints = lines(capsys)
    assert complaints == []
    document = results.load(out)
    rows = document["results"]
    assert [row["kernel"] for row in rows] == [
        *("saxpy_f32", "gemm_f32", "gemm_f64", "conv2d_f32"),
        *("reduce_sum_f32", "reduce_sum_f64", "reduce_sum_i32"),
    ]
    for row in rows:
        assert row["verified"] is True
        assert row["mode"] == "hot"
        assert row["device"] == "cpu"
        assert row["error"]["max_rel_rms"] <= row["error"]["tolerance"]
        assert row["time_ns"]["ci_low"] <= row["time_ns"]["median"] <= row["time_ns"]["ci_high"]
        assert row["time_ns"]["n"] == len(row["samples_ns"])
        assert row["host_ns"]["median"] >= row["device_ns"]["median"] > 0
        assert row["gflops"] > 0
        assert row["gbytes_per_s"] > 0
        # The machine decides which roof so small a row is nearer to. i32 has no roof of flops.
        memory = "read" if row["kernel"].startswith("reduce") else "copy"
        other = None if row["kernel"].endswith("i32") else "flops"
        assert row["roof"] in {memory, other}
    assert document["seed"] == 7
    assert "seed 7" in printed[0]
    assert [line.split()[0] for line in printed[3:]] == [row["kernel"] for row in rows]
    assert all("verified" in line for line in printed[3:])
    with open(tmp_path / "o.csv") as file:
        assert [row["kernel"] for row in csv.DictReader(file)] == [row["kernel"] for row in rows]
    assert (tmp_path / "o.md").read_text().count("| verified |") == len(rows)
    plan = next(row["plan"] for row in rows if row["kernel"] == "gemm_f32")
    assert set(plan) >= {"algo", "levels", "threads"}


@pytest.mark.usefixtures("no_roofs")
def test_modes_and_axes(bench, tmp_path):
    out = tmp_path / "o.json"
    words = ("-a", "n=8,16", "--mode", "hot,cold,latency,pipeline", *TINY, "--json", out)
    assert bench("run", "copy_i32", *words) == 0
    rows = results.load(out)["results"]
    assert [(row["axes"]["n"], row["mode"]) for row in rows] == [
        (n, mode) for n in (8, 16) for mode in ("hot", "cold", "latency", "pipeline")
    ]
    assert [row["time_ns"]["of"] for row in rows[:4]] == ["device", "device", "host", "host"]
    assert rows[1]["cold_sets"] > 1


@pytest.mark.usefixtures("no_roofs")
def test_a_seed_repeats_the_inputs(bench, tmp_path):
    errors = []
    for name in ("a", "b", "c"):
        seed = 99 if name != "c" else 100
        words = ("run", "vecadd_f32", "-a", "n=5000", *TINY, "--seed", seed)
        assert bench(*words, "--json", tmp_path / name) == 0
        errors.append(results.load(tmp_path / name)["results"][0]["error"]["max_rel_rms"])
    assert errors[0] == errors[1] != errors[2]


@pytest.mark.usefixtures("no_roofs")
def test_all_devices(bench, tmp_path):
    assert bench("run", "noop", "-d", "all", *TINY, "--json", tmp_path / "o") == 0
    rows = results.load(tmp_path / "o")["results"]
    assert [row["device"] for row in rows] == [info.uri for info in sp.devices()]


@pytest.mark.parametrize("l3", [None, 1 << 20, 300 << 20, 512 << 20])
def test_default_set_of_kernels_is_that_of_make_bench(bench, monkeypatch, l3):
    """`bench.py` alone runs saxpy, gemm, conv2d and reduce_sum at sizes beyond the caches, whatever
    caches the machine tells.
    """
    caches = (sp.CacheLevel(3, l3, 2),) if l3 else ()
    monkeypatch.setattr(machine, "caches", lambda **_: caches)
    monkeypatch.setattr(headroom, "available_nbytes", lambda: None)
    seen = []
    monkeypatch.setattr(
        runner.Session, "_one_device", lambda self, device, tasks: seen.extend(tasks.values())
    )
    assert bench() == 0
    names = [job.kernel for job, mode in seen]
    assert {"saxpy_f32", "gemm_f32", "conv2d_f32", "reduce_sum_f32"} <= set(names)
    assert {mode for job, mode in seen} == {"hot"}
    for job, _ in seen:
        if job.kernel.startswith(("saxpy", "reduce_sum", "copy")):
            honest = any("may stay in" in note for note in job.notes)  # a machine of little memory
            assert job.footprint >= 2 * (l3 or 64 << 20) or honest
    assert len(seen) <= 10  # at 5 s a row make bench stays under a minute or two


def test_bad_input(bench, tmp_path, capsys):
    """One clear line on stderr and the promised exit code."""
    for words, code, said in (
        (("run", "sgemmm"), 2, "no kernel is called 'sgemmm'"),
        (("run", ""), 2, "got an empty one"),
        (("run", "saxpy", "-a", "n=1e999"), 2, "the value is inf"),
        (("run", "saxpy", "-a", "n=1e18"), 2, "1000000000000000000 does not fit u32"),
        (("run", "saxpy", "-a", "n=2**64"), 2, "does not fit u32"),
        (("run", "gemm", "-a", "size=2**63"), 2, "beyond 64 bits"),
        (("run", "conv2d", "-a", "n=2**60"), 2, "beyond 64 bits"),
        (("run", "saxpy", "-a", "q=1"), 2, "unknown axis; saxpy_f32 know n"),
        (("run", "saxpy", "-a", "n"), 2, "NAME=VALUES"),
        (("run", "saxpy", "-a", "n=0"), 2, "below 1"),
        (("run", "gemm", "-a", "act=gelu"), 2, "none of none, relu"),
        (("run", "conv2d", "-a", "groups=3"), 2, "does not divide"),
        (("run", "saxpy", "--mode", "warm"), 2, "expected some of hot, cold, latency, pipeline"),
        (("run", "saxpy", "-d", "cpu,,cpu"), 2, "device URIs"),
        (("run", "saxpy", "-d", "cpu:7"), 3, "cpu:7"),
        (("run", "saxpy", "-d", "vulkan:0"), 3, "there is no backend 'vulkan'"),
        (("run", "saxpy", "-d", "cpu,no:0"), 3, "there is no backend 'no'"),
        (("run", "saxpy", "--json", tmp_path / "no" / "o"), 2, "folder does not exist"),
        (("run", "saxpy", "--seed", "-1"), 2, "got -1"),
        (("tune", "--seed", "-1"), 2, "--seed: expected a number from 0 to 2**64 - 1, got -1"),
        (("tune", "--seed", str(1 << 64)), 2, "got 18446744073709551616"),
        (("peak", "-d", "cuda:99"), 3, "cuda"),
        (("launch", "-d", "cuda:99"), 3, "cuda"),
        (("compare",), 2, "OLD and NEW"),
    ):
        assert bench(*words) == code, words
        printed, complaints = lines(capsys)
        assert printed == [], words
        assert len(complaints) == 1, complaints
        assert complaints[0].startswith("bench.py: ")
        assert said in complaints[0], complaints
    for words in (
        ("run", "--precision", "0"),
        ("run", "--timeout", "x"),
        ("nonsense",),
        ("run", "-Q"),
    ):
        assert bench(*words) == 2
        assert "Traceback" not in capsys.readouterr().err


@pytest.mark.usefixtures("no_roofs")
def test_a_failed_row_exits_1_and_the_others_are_kept(bench, tmp_path, monkeypatch, capsys):
    from sparkle_drv.ops import ref

    honest = ref.kernel

    def disagreeing(name):
        if name != "neg_f32":
            return honest(name)
        return lambda *args: -honest(name)(*args)

    monkeypatch.setattr(ref, "kernel", disagreeing)
    out = tmp_path / "o.json"
    assert bench("run", "abs_f32", "neg_f32", "copy_f32", "-a", "n=9", *TINY, "--json", out) == 1
    printed, complaints = lines(capsys)
    rows = results.load(out)["results"]
    assert [row["verified"] for row in rows] == [True, False, True]
    assert rows[1]["error"]["first_wrong_index"] == [0]
    assert len(complaints) == 1
    assert complaints[0].startswith("FAILED neg_f32 n=9 hot: before timing: wrong result: y[0] exp")
    assert [("FAILED" in line) for line in printed[3:]] == [False, True, False]


@pytest.fixture
def tool():
    """Runs tools/bench.py in a process of its own, as a person does."""

    def run(*words, **more):
        command = [sys.executable, str(TOOLS / "bench.py"), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, **more)

    return run


def test_peak(bench, home, monkeypatch, tmp_path, capsys):
    """Measured for real, in arrays that fit a cache to be quick about it."""
    monkeypatch.setattr(cache_reach, "caches_nbytes", lambda info: 1 << 18)
    assert bench("peak", "--timeout", "0.1", "--json", tmp_path / "p.json") == 0
    out = capsys.readouterr().out
    for word in ("flops f32", "flops f64", "memory copy", "memory read", "GFLOPS", "GB/s"):
        assert word in out
    rows = results.load(tmp_path / "p.json")["results"]
    assert [row["kernel"] for row in rows] == list(runner.roofs.KERNELS)
    roofs = results.load(tmp_path / "p.json")["roofs"]["cpu"]
    assert set(roofs["gflops"]) == {"f32", "f64"}
    assert roofs["gbytes_per_s"]["read"] >= roofs["gbytes_per_s"]["copy"] > 0


def test_launch(tool, home, tmp_path):
    done = tool("launch", "--quick", "--timeout", "0.1", "--csv", tmp_path / "l.csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("launch: ") == 7
    assert "\x1b" not in done.stdout + done.stderr  # piped: plain, no progress


def test_list(bench, capsys):
    assert bench("list") == 0
    printed, _ = lines(capsys)
    assert any(line.startswith("gemm_f64 ") and "size=256,1024" in line for line in printed)
    assert bench("list", "--json") == 0
    entries = json.loads(capsys.readouterr().out)
    assert {"kernel", "args", "axes", "flops", "nbytes", "backends", "doc"} <= set(entries[0])


def test_env(bench, capsys, monkeypatch):
    monkeypatch.setenv("SPARKLE_THREADS", "1")
    assert bench("env", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["sparkle_environment"]["SPARKLE_THREADS"] == "1"
    assert facts["sparkle_drv"] == sp.__version__
    assert facts["cpus"] >= 1
    assert {"commit", "governor", "caches", "kernel", "python", "numpy"} <= set(facts)
    assert bench("env") == 0
    assert "sparkle_environment" in capsys.readouterr().out


def test_env_outside_of_a_checkout(monkeypatch, tmp_path):
    monkeypatch.setattr(env, "_ROOT", tmp_path)
    assert env.commit() is None


def test_help_names_the_exit_codes(bench, capsys):
    for words in (("--help",), ("run", "--help"), ("compare", "-h")):
        assert bench(*words) == 0
        assert "3 no such device or regression" in " ".join(capsys.readouterr().out.split())


def test_ctrl_c_leaves_a_valid_file(home, tmp_path):
    """SIGINT while the second, long row is measured: the first is kept, the file whole."""
    out = tmp_path / "o.json"
    words = ("run", "noop", "gemm_f32", "-a", "size=2048", "--precision", "500", "--json", str(out))
    process = subprocess.Popen(
        [sys.executable, str(TOOLS / "bench.py"), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 60
        while not out.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1, stderr
    assert stderr == "interrupted: 1 rows are complete\n"
    document = results.load(out)
    assert document["interrupted"] is True
    assert [(row["kernel"], row["verified"]) for row in document["results"]] == [("noop", True)]
    assert "noop" in stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["home", "o.json"]
