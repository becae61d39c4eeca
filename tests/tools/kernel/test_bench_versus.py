"""`bench.py kernel A --vs B`: turns, the same inputs, who is judged by what, what is refused.

When this fails, a comparison of two kernels favours one of them.
"""

from __future__ import annotations

import json

import pytest
from _bench.jobs import user_kernel
from _bench.measure import devices, versus
from _bench.measure.engine import Settings
from _bench.rows import shift
from _console.problems import UsageError

pytestmark = pytest.mark.usefixtures("in_this_process")

SAXPY = ("--arg", "inout:f32[N]", "--arg", "in:f32[N]", "--arg", "f32=2.5", "--arg", "u32=N")
QUICK = (*SAXPY, "-D", "N=1000", "--groups", "N/256", "--timeout", "0.05", "--quick")


@pytest.fixture
def ref(tmp_path):
    (tmp_path / "ref.py").write_text("def saxpy(y, x, a, n):\n    return a * x + y\n")
    return f"{tmp_path / 'ref.py'}:saxpy"


def test_samples_are_taken_in_turns(library, ref, monkeypatch):
    taken, honest = [], versus._sample

    def noted(sampler, again):
        taken.append(id(sampler))
        return honest(sampler, again)

    monkeypatch.setattr(versus, "_sample", noted)
    spec = user_kernel.Spec(library, "good", SAXPY[1::2], "N/256", reference=ref)
    rival = user_kernel.rival(f"{library}:good")
    job = user_kernel.against(user_kernel.make(spec, {"N": 1000}), spec, [rival], {"N": 1000})
    with devices.opened("cpu") as device:
        found = versus.rows(job, device, "hot", Settings(3, timeout_s=0.2), None)
    assert [row.subject.kernel for row, _ in found] == ["kernels.so:good", "kernels.so:good#2"]
    rounds = [tuple(taken[at : at + 2]) for at in range(0, len(taken), 2)]
    assert all(len(set(pair)) == 2 for pair in rounds)
    assert len(set(rounds)) == 2  # not always the same one first


def test_rivals_have_the_same_inputs_and_a_ratio(bench, library, ref, tmp_path, capsys):
    out = tmp_path / "o.json"
    words = ("--vs", f"{library}:good", "--vs", f"{library}:copy", "--ref", ref, "--seed", 3)
    files = ("--json", out, "--timeout", "0.5")
    assert bench("kernel", f"{library}:good", *words, *QUICK, *files) == 1
    rows = json.loads(out.read_text())["results"]
    assert [row["kernel"] for row in rows] == [
        *("kernels.so:good", "kernels.so:good#2", "kernels.so:copy")
    ]
    assert [row["verified"] for row in rows] == [True, True, False]
    assert rows[0]["error"] == rows[1]["error"]  # the very same inputs
    assert rows[2]["time_ns"] is None
    assert "versus" not in rows[0]
    assert "versus" not in rows[2]
    found = rows[1]["versus"]
    told = shift.rivals(*(row["samples_ns"] for row in rows[:2]), 0.05)
    assert found["ratio"] == pytest.approx(1 + told.shift.middle, rel=1e-3)
    assert found["ci_low"] <= found["ratio"] <= found["ci_high"]
    assert found["verdict"] in ("FAST", "SLOW", "SAME", "AMBIGUOUS")
    assert found["against"] == "kernels.so:good"
    assert rows[0]["time_ns"]["batch"] == rows[1]["time_ns"]["batch"]
    printed = capsys.readouterr()
    assert "(ratio of times, below 1" in printed.out
    assert "FAILED kernels.so:copy N=1000 hot: before timing: wrong result" in printed.err


def test_without_a_reference_the_first_is_the_measure(bench, library, tmp_path, capsys):
    rivals = ("--vs", f"{library}:off_by_one", "--vs", f"{library}:good")
    out = tmp_path / "o.json"
    assert bench("kernel", f"{library}:good", *rivals, *QUICK, "--json", out) == 1
    err = capsys.readouterr().err
    assert "FAILED kernels.so:off_by_one N=1000 hot: differs from kernels.so:good: arg0[999]" in err
    assert err.count("not timed (--unverified times it anyway)") == 2
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
    words = ("--vs", f"{library}:good", "--ref", ref, "--mode", "cold,latency", "--json", out)
    sizes = ("-D", "N=100", "--groups", "N/GX", "--group-size", "64:100", "--timeout", "0.02")
    assert bench("kernel", f"{library}:good", *words, *SAXPY, *sizes) == 0
    rows = json.loads(out.read_text())["results"]
    assert [(r["axes"]["N"], r["axes"]["group_size"], r["mode"]) for r in rows[::2]] == [
        (100, size, mode) for size in ("64", "100") for mode in ("cold", "latency")
    ]
    assert all("versus" in row for row in rows[1::2])


def test_a_rival_that_does_not_load_leaves_the_others_their_times(bench, library, ref, tmp_path):
    out = tmp_path / "o.json"
    rivals = ("--vs", f"{library}:absent", "--vs", f"{library}:good")
    assert bench("kernel", f"{library}:good", *rivals, "--ref", ref, *QUICK, "--json", out) == 1
    rows = json.loads(out.read_text())["results"]
    assert [row["verified"] for row in rows] == [True, False, True]
    assert "undefined symbol: absent" in rows[1]["reason"]
    assert rows[2]["versus"]["against"] == "kernels.so:good"


def test_a_grid_of_its_own(bench, library, ref, tmp_path):
    """The arguments and inputs are the first kernel's, the grid and the names are its own."""
    out = tmp_path / "o.json"
    rival = f"{library}:good --groups N/BLOCK --group-size=BLOCK -D BLOCK=N//10 -DHALF=BLOCK+1"
    words = ("--vs", rival, "--ref", ref, "-D", "BLOCK=250", "--groups", "N/GX", "--json", out)
    sizes = (*SAXPY, "-D", "N=1000", "--group-size", "BLOCK:2*BLOCK", "--timeout", "0.05")
    assert bench("kernel", f"{library}:good", *words, *sizes) == 0
    rows = json.loads(out.read_text())["results"]
    assert [row["axes"] for row in rows] == [
        {"BLOCK": 250, "N": 1000, "group_size": "250"},
        {"BLOCK": 100, "N": 1000, "group_size": "100", "HALF": 251},
        {"BLOCK": 250, "N": 1000, "group_size": "500"},
        {"BLOCK": 100, "N": 1000, "group_size": "100", "HALF": 251},
    ]
    assert rows[0]["error"] == rows[1]["error"]  # the very same inputs


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--groups", "requires argument"),
        ("--group-size 0", "from 1"),
        ("-D N", "NAME=VALUES"),
        ("-D GX=1", "--group-size gives"),
        ("-D A=1,2", "expected the end"),
        ("--groups 1 more", "got 'more'"),
        ("--groups '1", "No closing quotation"),
        ("-D A=1 --flops 1", "--flops"),
    ],
)
def test_options_of_a_rival_that_cannot_be(library, options, said):
    spec = user_kernel.Spec(library, "good", SAXPY[1::2], "N/256")

    def made():
        rival = user_kernel.rival(f"{library}:good {options}")
        user_kernel.against(user_kernel.make(spec, {"N": 4}), spec, [rival], {"N": 4})

    with pytest.raises(UsageError) as caught:
        made()
    assert said in str(caught.value)


def test_bad_words(bench, library, capsys):
    good = f"{library}:good"
    first = ("-D", "N=64", "--groups", "1", *SAXPY, "--timeout", "0.02", "--unverified")
    for words, said in (
        ((good, "--vs", "kernels"), "expected FILE:ENTRY"),
        ((good, "--vs", "no.so:f"), "no such file: no.so"),
        ((good, "--vs", good, "--mode", "pipeline"), "--mode pipeline"),
        ((good, "--threshold", "0.1"), "--threshold: expected --vs"),
    ):
        assert bench("kernel", *words, *first) == 2, words
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line
