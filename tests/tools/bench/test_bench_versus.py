"""`bench.py kernel A --vs B`: turns, the same inputs, who is judged by what, what is refused."""

from __future__ import annotations

import json

import pytest
from _bench.measure import versus

SAXPY = ("--arg", "inout:f32[N]", "--arg", "in:f32[N]", "--arg", "f32=2.5", "--arg", "u32=N")
QUICK = (*SAXPY, "-D", "N=1000", "--groups", "N/256", "--timeout", "0.05", "--quick")
GLSL = """#version 430
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Y { float y[]; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(location = 0) uniform float a;
layout(location = 1) uniform uint n;
void main() { uint i = gl_GlobalInvocationID.x; if (i < n) y[i] += a * x[i]; }
"""


@pytest.fixture
def ref(tmp_path):
    (tmp_path / "ref.py").write_text("def saxpy(y, x, a, n):\n    return a * x + y\n")
    return f"{tmp_path / 'ref.py'}:saxpy"


def test_rivals_take_turns_over_the_same_inputs(bench, library, ref, tmp_path, monkeypatch, capsys):
    taken, honest = [], versus._sample

    def noted(sampler, again):
        taken.append(id(sampler))
        return honest(sampler, again)

    monkeypatch.setattr(versus, "_sample", noted)
    out = tmp_path / "o.json"
    words = ("--vs", f"{library}:good", "--vs", f"{library}:copy", "--ref", ref, "--seed", 3)
    files = ("--json", out, "--timeout", "0.5")
    assert bench("kernel", f"{library}:good", *words, *QUICK, *files) == 1
    rows = json.loads(out.read_text())["results"]
    assert [row["kernel"] for row in rows] == ["good", "kernels.so:good", "copy"]
    assert [row["verified"] for row in rows] == [True, True, False]
    assert rows[0]["error"] == rows[1]["error"]  # the very same inputs
    assert rows[2]["time_ns"] is None
    assert "versus" not in rows[0]
    assert "versus" not in rows[2]
    found = rows[1]["versus"]
    medians = [row["time_ns"]["median"] for row in rows[:2]]
    assert found["ratio"] == pytest.approx(medians[1] / medians[0], rel=1e-3)
    assert found["ci_low"] <= found["ratio"] <= found["ci_high"]
    assert found["verdict"] in ("FAST", "SLOW", "SAME", "AMBIGUOUS")
    assert found["against"] == "good"
    assert rows[0]["time_ns"]["batch"] == rows[1]["time_ns"]["batch"]
    rounds = [tuple(taken[at : at + 2]) for at in range(0, len(taken), 2)]
    assert all(len(set(pair)) == 2 for pair in rounds)
    assert len(set(rounds)) == 2  # not always the same one first
    printed = capsys.readouterr()
    assert "(ratio of times, below 1" in printed.out
    assert "FAILED copy N=1000 hot: before timing: wrong result" in printed.err


def test_without_a_reference_the_first_is_the_measure(bench, library, tmp_path, capsys):
    rivals = ("--vs", f"{library}:off_by_one", "--vs", f"{library}:good")
    out = tmp_path / "o.json"
    assert bench("kernel", f"{library}:good", *rivals, *QUICK, "--json", out) == 1
    err = capsys.readouterr().err
    assert "FAILED off_by_one N=1000 hot: differs from good: arg0[999]" in err
    assert err.count("not timed (--unverified times it all the same)") == 2
    assert all(row["time_ns"] is None for row in json.loads(out.read_text())["results"])
    agreeing = ("--vs", f"{library}:good", "--unverified")
    assert bench("kernel", f"{library}:good", *agreeing, *QUICK, "--json", out) == 0
    rows = json.loads(out.read_text())["results"]
    assert [row["verified"] for row in rows] == [False, False]
    assert rows[1]["versus"]["ratio"] > 0


def test_a_first_that_fails_leaves_the_others_their_times(bench, library, ref, tmp_path):
    out = tmp_path / "o.json"
    words = ("--vs", f"{library}:good", "--ref", ref, "--json", out)
    assert bench("kernel", f"{library}:zeros", *words, *QUICK) == 1
    rows = json.loads(out.read_text())["results"]
    assert [row["verified"] for row in rows] == [False, True]
    assert rows[1]["time_ns"]["median"] > 0
    assert "versus" not in rows[1]


def test_modes_and_sweeps(bench, library, ref, tmp_path):
    out = tmp_path / "o.json"
    words = ("--vs", f"{library}:good", "--ref", ref, "--mode", "hot,cold,latency", "--json", out)
    sizes = ("-D", "N=100,200", "--groups", "N/GX", "--group-size", "64:100", "--timeout", "0.02")
    assert bench("kernel", f"{library}:good", *words, *SAXPY, *sizes) == 0
    rows = json.loads(out.read_text())["results"]
    assert [(r["axes"]["N"], r["axes"]["group_size"], r["mode"]) for r in rows[::2]] == [
        (n, size, mode)
        for n in (100, 200)
        for size in ("64", "100")
        for mode in ("hot", "cold", "latency")
    ]
    assert all("versus" in row for row in rows[1::2])


def test_bad_words(bench, library, tmp_path, capsys):
    good, glsl = f"{library}:good", tmp_path / "k.comp"
    glsl.write_text(GLSL)
    first = ("-D", "N=64", "--groups", "1", *SAXPY, "--timeout", "0.02", "--unverified")
    floats = GLSL.replace("uniform uint n", "uniform float n")
    (tmp_path / "floats.comp").write_text(floats)
    for words, said in (
        ((good, "--vs", "kernels"), "FILE:ENTRY is wanted"),
        ((good, "--vs", "no.so:f"), "no such file: no.so"),
        ((good, "--vs", f"{library}:absent"), "--vs absent: "),
        ((good, "--vs", good, "--mode", "pipeline"), "--mode pipeline"),
        ((good, "--threshold", "0.1"), "--threshold belongs to --vs"),
        ((f"{glsl}:main", "--vs", f"{tmp_path}/floats.comp:main", "-d", "egl:0"), "--vs floats"),
    ):
        assert bench("kernel", *words, *first) == 2, words
        err = capsys.readouterr().err
        assert "Traceback" not in err
        assert said in err.splitlines()[-1], err
