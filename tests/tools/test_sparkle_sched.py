"""sparkle.py explain, trace and replay: of calls, of files, and of files that hold no trace.

When this fails, `sparkle explain` and `replay` misreport what a Context decided.
"""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from where import ROOT

import sparkle_drv as sp

TOOLS = ROOT / "tools"


@pytest.fixture
def sparkle():
    import sparkle as tool

    return lambda *words: tool.main([str(word) for word in words])


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A trace of calls on cpu and egl:0, with its journal."""
    path = tmp_path_factory.mktemp("traces") / "t.json"
    a, b = np.random.default_rng(1).random((2, 32, 32), np.float32)
    with sp.init(["cpu", "egl:0"], profile=False, topology="single") as ctx:
        with ctx.trace("two kinds"):
            for _ in range(3):
                ctx.gemm(a, b)
                ctx.gemm(a, b, devices=["egl:0"])
                ctx.map("x + y", a, b)
        ctx.save_trace(path)
    return path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gemm", "32x16x8"], "gemm_f32, size 8192: 1536 bytes in, 2048 bytes out"),
        (["gemm", "32x16x8", "--dtype", "f64"], "gemm_f64"),
        (["gemm", "64x64x64", "--from", "egl:0"], "in "),
        (["conv2d", "1x4x9x9", "6x2x3x3", "--groups", "2", "--padding", "1"], "grouped"),
        (["map", "x*y + 1", "x,y", "100x3"], "map_f32:x0*x1+#, size 3600"),
        (["reduce", "50x20", "--op", "max", "--axis", "1", "--dtype", "i32"], "reduce_max_i32"),
        (["reduce", "50x20", "--op", "mean"], "reduce_mean_f32"),
    ],
)
def test_explain(sparkle, capsys, words, said):
    assert sparkle("explain", *words, "-d", "cpu,egl:0", "--no-profile") == 0
    out = capsys.readouterr().out
    assert said in out
    assert "-> " in out
    assert "cpu: " in out
    assert "egl:0: " in out
    assert "measured " in out


def test_explain_as_json(sparkle, capsys):
    assert sparkle("explain", "gemm", "8x8x8", "-d", "cpu", "--no-profile", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["work"]["op"] == "gemm_f32"
    assert plan["candidates"][0]["device"] == "cpu"
    assert plan["work"]["operands"][0]["places"] == ["host"]
    took = plan["measured"]
    assert took["total_s"] == took["compute_s"] > 0
    assert (took["in_s"], took["out_s"], took["convert_s"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["gemm", "8x8x8", "-d", "quantum:0"], 3, "quantum"),
        (["gemm", "8x8x8", "-d", "cpu", "--from", "egl:0"], 3, "--from: expected one of cpu"),
        (["map", "x + q", "x", "8"], 1, "q: it stands in the expression"),
        (["map", "x +", "x", "8"], 1, "expression: expected a number"),
        (["conv2d", "1x4x9x9", "6x3x3x3"], 1, "w: "),
        (["gemm", "9000000x9000000x9000000"], 1, "the operands are 648000000000000 bytes, the dev"),
    ],
)
def test_explain_of_what_cannot_be(sparkle, capsys, words, code, said):
    words = words if "-d" in words else [*words, "-d", "cpu"]
    assert sparkle("explain", *words, "--no-profile") == code
    captured = capsys.readouterr()
    assert said in captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    "words",
    [["explain"], ["explain", "gemm"], ["explain", "gemm", "8x8"], ["explain", "gemm", "0x8x8"],
     ["explain", "sort", "8"], ["explain", "conv2d", "1x4x9x9", "6x3x3x3", "--dtype", "f64"],
     ["trace"], ["replay"], ["replay", "x", "--rate", "cpu"], ["replay", "x", "--rate", "cpu=0"],
     ["explain", "gemm", "8x8x8", "-d", ""], ["explain", "gemm", "8x8x8", "-d", "cpu,"],
     ["replay", "x", "--rate", "=2"], ["replay", "x", "--rate", "cpu=fast"]],
)  # fmt: skip
def test_usage(sparkle, capsys, words):
    with pytest.raises(SystemExit) as leave:
        sparkle(*words)
    assert leave.value.code == 2
    assert "--help)" in capsys.readouterr().err


def test_a_trace_is_summed_up(sparkle, capsys, saved):
    assert sparkle("trace", saved) == 0
    out = capsys.readouterr().out
    for words in ("of wall time", "two kinds: ", "host calls: busy", "cpu compute: busy",
                  "egl:0 h2d: ", "GB/s", "gemm_f32: 3 to egl:0"):  # fmt: skip
        assert words in out
    assert sparkle("trace", saved, "--json") == 0
    summed = json.loads(capsys.readouterr().out)
    assert summed["tracks"]["host calls"]["spans"] == 9
    assert summed["transfers"]["egl:0 h2d"] == {
        "count": 6, "nbytes": 6 * 4096, "seconds": summed["tracks"]["egl:0 h2d"]["busy_s"],
    }  # fmt: skip
    assert sum(d["count"] for d in summed["decisions"]) == 9
    assert 0 < summed["covered"]["two kinds"] <= 1
    assert summed["flows"] >= 9 + 6


def broken(saved, tmp_path, change):
    document = json.loads(saved.read_text())
    change(document["traceEvents"])
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(document))
    return path


def test_traces_that_are_wrong(sparkle, capsys, saved, tmp_path):
    def one_sided(events):
        events.remove(next(e for e in events if e["ph"] == "f"))

    def overlapping(events):
        first = next(e for e in events if e["ph"] == "X")
        events.append({**first, "ts": first["ts"] + first["dur"] / 2, "dur": 1e9})

    for change, said in (
        (one_sided, "expected one beginning and one end"),
        (overlapping, "in part"),
        (lambda events: events.append({"ph": "X"}), "expected name, pid, ts, dur, tid"),
        (lambda events: [events.append(5) for _ in range(30)], "and 10 more"),
    ):
        assert sparkle("trace", broken(saved, tmp_path, change)) == 1
        captured = capsys.readouterr()
        assert said in captured.err
        assert captured.out == ""
    for content, said in ((b"{", "expected JSON"), (b"\xff\xfe\x00", "expected JSON"),
                          (b"[]", "traceEvents")):  # fmt: skip
        (tmp_path / "no.json").write_bytes(content)
        assert sparkle("trace", tmp_path / "no.json") == 1
        assert said in capsys.readouterr().err
    assert sparkle("trace", tmp_path / "nowhere.json") == 1
    assert "nowhere.json" in capsys.readouterr().err


def test_a_replay_verifies_and_answers_what_if(sparkle, capsys, saved, tmp_path):
    for file in (saved, saved.with_name("t.json.journal")):
        assert sparkle("replay", file) == 0
        assert capsys.readouterr().out == "3 decisions, all are the same\n"
    assert sparkle("replay", saved, "--without", "cpu") == 0
    out = capsys.readouterr().out
    assert "2 of 3 decisions go elsewhere" in out
    assert "gemm_f32: 1 from cpu to egl:0" in out
    assert sparkle("replay", saved, "--rate", "egl:0=1e6", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["same"] for one in found] == [False] * 3
    egl = next(one for one in found if one["device"] == "egl:0")
    assert egl["now_device"] == "egl:0"
    assert egl["now_predicted_s"] < egl["predicted_s"]
    assert sparkle("replay", saved, "--without", "cpu", "--without", "egl:0") == 0
    assert "to nowhere" in capsys.readouterr().out


def test_a_journal_that_was_changed_comes_out_otherwise(sparkle, capsys, saved, tmp_path):
    lines = saved.with_name("t.json.journal").read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith('{"decided"'))
    decided = json.loads(lines[at])
    decided["decided"]["plan"]["candidates"][0]["cost"]["compute_s"] *= 1.0000001
    lines[at] = json.dumps(decided)
    (tmp_path / "t").write_text("\n".join(lines))
    assert sparkle("replay", tmp_path / "t") == 1
    out = capsys.readouterr().out
    assert "1 of 3 decisions differ" in out
    assert "    1: " in out


def test_what_is_no_journal(sparkle, capsys, saved, tmp_path):
    journal = saved.with_name("t.json.journal").read_text()
    for content, said in (
        ("", "expected a journal"),
        ("{}", "expected a journal"),
        ('{"costs": {}}', "line 1: KeyError: 'journal'"),
        ('{"costs"', "line 1: JSONDecodeError"),
        (journal.replace('"journal": 7', '"journal": 9', 1), "expected version 7, got 9"),
        (journal.replace('"told"', '"asked"', 1), "KeyError: 'decided'"),
        (journal.replace('"call": "probed"', '"call": "rm"', 1), "got 'rm'"),
    ):
        (tmp_path / "j").write_text(content)
        assert sparkle("replay", tmp_path / "j") == 1
        assert said in capsys.readouterr().err
    (tmp_path / "j").write_bytes(b"\xff\x00")
    assert sparkle("replay", tmp_path / "j") == 1
    assert "got a file that is no text" in capsys.readouterr().err
    assert sparkle("replay", tmp_path / "nowhere") == 1
    for asked in (["--without", "cuda:9"], ["--rate", "cuda:9=2"]):
        assert sparkle("replay", saved, *asked) == 2
        assert "expected one of its devices cpu, egl:0, got cuda:9" in capsys.readouterr().err


def damaged(saved, change):
    """The journal, its first decision's plan changed."""
    lines = saved.with_name("t.json.journal").read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith('{"decided"'))
    decided = json.loads(lines[at])
    change(decided["decided"]["plan"])
    return "\n".join([*lines[:at], json.dumps(decided), *lines[at + 1 :]])


@pytest.mark.parametrize(
    "change",
    [lambda plan: plan.pop("candidates"), lambda plan: plan["candidates"].clear(),
     lambda plan: plan.update(candidates=[None]), lambda plan: plan.update(work=[])],
)  # fmt: skip
def test_a_damaged_decision(sparkle, capsys, saved, tmp_path, change):
    (tmp_path / "j").write_text(damaged(saved, change))
    assert sparkle("replay", tmp_path / "j") == 1
    assert "journal, decision 1: " in capsys.readouterr().err


def test_files_that_nest_without_end(sparkle, capsys, saved, tmp_path):
    deep = "[" * 300000
    (tmp_path / "t").write_text(deep)
    assert sparkle("trace", tmp_path / "t") == 1
    assert "expected JSON" in capsys.readouterr().err
    journal = saved.with_name("t.json.journal").read_text()
    (tmp_path / "j").write_text(journal + deep)
    assert sparkle("replay", tmp_path / "j") == 1
    assert "RecursionError" in capsys.readouterr().err


def test_a_name_that_no_output_can_encode(saved, tmp_path):
    document = json.loads(saved.read_text())
    document["otherData"] = {"odd \ud800": {"covered": 0.5}}
    (tmp_path / "t").write_text(json.dumps(document))
    done = subprocess.run(
        [sys.executable, str(TOOLS / "sparkle.py"), "trace", str(tmp_path / "t")],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert r"odd \ud800: 50.0% of it covered" in done.stdout


def test_from_python(saved):
    found = sp.replay(saved)
    assert [(one.op, one.device) for one in found][1] == ("gemm_f32", "egl:0")
    assert all(one.same and one.now_device == one.device for one in found)
    for more, error, said in (
        ({"rate": {"cpu": -1}}, ValueError, "rate: expected a factor above 0"),
        ({"rate": {"cpu": "a"}}, TypeError, "rate: expected a factor above 0 for cpu, got 'a'"),
        ({"rate": [1]}, TypeError, "rate: expected a dict of factors by URI"),
        ({"without": "cpu"}, TypeError, "without: expected a list of URIs, got 'cpu'"),
        ({"without": None}, TypeError, "without: expected a list"),
        ({"without": ["tpu"]}, ValueError, "expected one of its devices cpu, egl:0, got tpu"),
    ):
        with pytest.raises(error, match=said):
            sp.replay(saved, **more)


def test_as_a_program(saved):
    for start in (["-m", "sparkle_drv"], [str(TOOLS / "sparkle.py")]):
        done = subprocess.run(
            [sys.executable, *start, "replay", str(saved)], capture_output=True, text=True,
            timeout=60,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert "all are the same" in done.stdout
