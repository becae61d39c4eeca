"""benchmarks/cpu_peers.py: what it verifies before it times, its figures, and who is missing."""

from __future__ import annotations

import importlib
import json
import math
import os
import sys
import types
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tools")]

import cpu_peers  # noqa: E402
from _cpu_peers import (  # noqa: E402
    NAMES,
    base,
    cases,
    child,
    environment,
    figures,
    measure,
    reference,
    report,
    roofs,
    shows,
    station,
    tiles,
)

ALL = cases.all_cases()
SMALL = ALL["gemm f32 8x8x8"]
ROOF = {"float32": 100.0, "float64": 50.0, "copy": 40.0, "copy_f32": 30.0}


def test_the_layers_are_those_of_the_networks():
    of = {name: case.of for name, case in ALL.items()}
    assert of["conv 7x7 s2 3->64 @224 N=1"].out == 112
    assert of["conv 3x3 s2 512->512 @14 N=8"].out == 7
    assert of["conv 3x3 64->64 @224 N=1"].flops == 2 * 64 * 224 * 224 * 64 * 9
    assert of["conv 3x3 depthwise 32->32 @112 N=1"].flops == 2 * 32 * 112 * 112 * 9
    assert sum(case.group == "resnet" for case in ALL.values()) == 2 * 23
    assert sum(case.group == "vgg" for case in ALL.values()) == 2 * 9
    assert of["map four 1k"].nbytes == 4 * 4 * 1000
    assert [c.name for c in cases.select("cubed|8x8x8")] == ["gemm f32 8x8x8", "gemm f64 8x8x8"]


def test_operands_are_the_same_again_and_others_for_other_cases():
    one, again = (reference.operands(SMALL) for _ in range(2))
    assert all(np.array_equal(one[name], again[name]) for name in ("a", "b"))
    other = reference.operands(SMALL, seed=2)["a"]
    assert not np.array_equal(one["a"], other)
    assert one["a"].dtype == np.float32
    assert reference.operands(ALL["gemm f64 8x8x8"])["a"].dtype == np.float64


def test_the_error_is_the_largest_over_the_rms():
    want = np.array([3.0, -4.0, 0.0, 0.0])  # rms 2.5
    assert reference.error(want + 0.05 * (want == 0), want) == pytest.approx(0.02)
    assert reference.error(want[:3], want) == math.inf
    assert reference.error(np.where(want == 0, math.nan, want), want) == math.inf
    assert reference.error(want.reshape(2, 2).T, want.reshape(2, 2)) > 1


def test_limits_are_those_of_the_algorithms():
    winograd, strided = ALL["conv 3x3 64->64 @56 N=1"], ALL["conv 3x3 s2 128->128 @56 N=1"]
    assert reference.limit(winograd, ours=True) == 1e-4
    assert reference.limit(strided, ours=True) == 1.5e-5
    assert reference.limit(strided, ours=False) == 1e-3
    assert reference.limit(ALL["gemm f64 8x8x8"], ours=False) == 1e-12


def test_what_steers_libraries_is_taken_out(tmp_path):
    env = {"OPENBLAS_CORETYPE": "Haswell", "MKL_DEBUG_CPU_TYPE": "5", "NVPL_BLAS_X": "1", "A": "b",
           "SPARKLE_THREADS": "9", "SPARKLE_CPU_ISA": "ref", "PYTHONPATH": "/old"}  # fmt: skip
    gone = environment.removed(env)
    assert sorted(gone) == [
        "MKL_DEBUG_CPU_TYPE", "NVPL_BLAS_X", "OPENBLAS_CORETYPE", "SPARKLE_THREADS",
    ]  # fmt: skip
    clean = environment.cleaned(env, 2, tmp_path, [Path("/x"), Path("/y")])
    assert "OPENBLAS_CORETYPE" not in clean
    assert clean["OMP_NUM_THREADS"] == clean["SPARKLE_THREADS"] == "2"
    assert (clean["A"], clean["SPARKLE_CPU_ISA"]) == ("b", "ref")
    assert clean["PYTHONPATH"] == f"/x{os.pathsep}/y"
    assert clean["SPARKLE_HOME"] == str(tmp_path)


class Fake:
    """A station whose ways give `results` and take `ns`."""

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
        raise station.Lost("ended with signal 11, saying nothing")


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


class Adder(base.Peer):
    """Computes right in one way, wrong in another, not at all in a third."""

    def start(self, threads):
        return f"1.{threads}"

    def ways(self, case, operands):
        c = np.zeros((8, 8), np.float32)
        names = {**operands, "c": c, "np": np}
        yield "good", lambda: base.Way("np.matmul(a, b, out=c)", names, lambda: c)
        yield "late", self.late
        yield "broken", lambda: base.Way("nonsense()", names, lambda: c)
        yield "absent", lambda: 1 // 0

    def late(self):
        """Two early calls, then what was there is spoiled, then the one that is verified."""
        calls = np.zeros(2)

        def once():
            calls[...] += 1

        def poison():
            assert calls.tolist() == [2, 2]

        return base.Way("once()", {"once": once}, lambda: calls, 2, poison)


def talk(monkeypatch, name, *requests):
    if name == "adder":
        monkeypatch.setitem(sys.modules, "_cpu_peers.adder", types.SimpleNamespace(PEER=Adder))
    lines, said = iter([*(json.dumps(request) for request in requests), ""]), []
    child.serve(name, 3, lambda: next(lines), said.append)
    return [json.loads(line) for line in said]


def test_a_child_prepares_and_times(monkeypatch, tmp_path):
    given = reference.operands(SMALL)
    reference.write(given, tmp_path)
    told = talk(
        monkeypatch, "adder", {"do": "prepare", "case": SMALL.name, "folder": str(tmp_path)},
        {"do": "time", "way": "good", "calls": 3, "blocks": 4, "warm": 1},
        {"do": "time", "way": "broken", "calls": 1, "blocks": 1, "warm": 0}, {"do": "drop"},
    )  # fmt: skip
    assert np.load(told[1]["late"]["file"]).tolist() == [3, 3]
    version, ways, timed, untimed, dropped = told
    assert version == {"version": "1.3"}
    assert ways["broken"] == {"error": "NameError: name 'nonsense' is not defined"}
    assert ways["absent"]["error"].startswith("ZeroDivisionError")
    result = np.load(ways["good"]["file"])
    assert reference.error(result, reference.expected(SMALL, given)) < 1e-5
    assert len(timed["ns"]) == 4
    assert min(timed["ns"]) > 0
    assert "error" in untimed
    assert dropped == {}


def test_a_library_that_is_not_there_is_absent(monkeypatch):
    broken = types.SimpleNamespace(PEER=lambda: importlib.import_module("no_such_library"))
    monkeypatch.setitem(sys.modules, "_cpu_peers.broken", broken)
    assert talk(monkeypatch, "broken") == [
        {"absent": "ModuleNotFoundError: No module named 'no_such_library'"}
    ]


CHILD = """
import json, os, sys, time
print(json.dumps({"version": "1"}), flush=True)
for line in sys.stdin:
    do = json.loads(line)["do"]
    if do == "die":
        print("a last word", file=sys.stderr)
        os.abort()
    if do == "sleep":
        time.sleep(60)
    print(json.dumps({"cpus": sorted(os.sched_getaffinity(0))}), flush=True)
"""


@pytest.fixture
def stationed(tmp_path):
    """A Station with CHILD behind it, on one CPU."""
    package = tmp_path / "_cpu_peers"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "child.py").write_text(CHILD)
    cpu = min(os.sched_getaffinity(0))
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    made = station.Station("sparkle", 1, [cpu], env, tmp_path)
    yield made
    made.close()


def test_a_station_is_pinned_and_ends(stationed):
    before = os.sched_getaffinity(0)
    assert stationed.version == "1"
    assert stationed.ask("which")["cpus"] == [min(before)]
    assert os.sched_getaffinity(0) == before
    stationed.close()
    assert not stationed.alive
    with pytest.raises(station.Lost, match="ended before"):
        stationed.ask("which")


def test_a_station_says_how_a_child_ended(stationed):
    with pytest.raises(station.Lost, match="ended with signal 6, saying a last word"):
        stationed.ask("die")
    assert not stationed.alive


def test_a_station_does_not_wait_for_ever(stationed, monkeypatch):
    monkeypatch.setattr(station, "ANSWER_S", 0.1)
    with pytest.raises(station.Lost, match=r"no answer for 0\.1 s"):
        stationed.ask("sleep")
    assert not stationed.alive


def row(name, threads=1, **ways):
    """A row in which each way, `peer_way`, took so many ns every time; "wrong" is a verdict."""
    case = ALL[name]
    entries = {}
    for key, ns in ways.items():
        right = not isinstance(ns, str)
        samples = [float(ns)] * 8 if right else []
        entries[key.replace("_", " ", 1)] = {
            "verdict": "right" if right else ns, "error": 1e-6, "limit": 1.5e-5,
            "samples_ns": samples,
        }  # fmt: skip
    return {
        "case": name, "kind": case.kind, "group": case.group, "threads": threads,
        "flops": case.of.flops, "nbytes": case.of.nbytes, "ways": entries,
    }  # fmt: skip


WIDE, STEM = "conv 3x3 64->64 @56 N=1", "conv 7x7 s2 3->64 @224 N=1"


def test_ratios_of_known_samples():
    one = row(WIDE, sparkle_checked=100, sparkle_NHWC=50, torch_NCHW=400, torch_packed=300,
              ncnn_Convolution=150, openvino_Convolution="wrong")  # fmt: skip
    best = figures.against_best(one)
    assert (best.value, best.low, best.high, best.of) == (1.5, 1.5, 1.5, "ncnn Convolution")
    assert figures.against(one, "torch").of == "torch packed"
    assert figures.against(one, "torch NCHW").value == 4.0
    assert figures.against(one, "openvino") is None
    other = row(STEM, sparkle_checked=100, torch_NCHW=100)
    mean = figures.geometric([one, other, row(STEM, sparkle_checked=5)], "torch NCHW")
    assert mean.value == pytest.approx(2.0)
    assert mean.low == pytest.approx(2.0)
    assert figures.geometric([], "torch") is None


def test_an_interval_holds_the_ratio():
    rng = np.random.default_rng(3)
    one = row(WIDE, sparkle_checked=1, torch_NCHW=1)
    for way, centre in (("sparkle checked", 100.0), ("torch NCHW", 200.0)):
        one["ways"][way]["samples_ns"] = list(centre * (1 + 0.05 * rng.standard_normal(30)))
    found = figures.against_best(one)
    assert found.low < 2.0 < found.high
    assert 1.9 < found.low < found.value < found.high < 2.1


def test_the_lines_hold_or_not_or_have_nothing_to_judge_by():
    seven, batch = "conv 3x3 512->512 @7 N=1", "conv 3x3 512->512 @7 N=8"
    rows = [
        row(WIDE, sparkle_checked=100, torch_NCHW=300, ncnn_Convolution=140),
        row(batch, sparkle_checked=100, torch_NCHW=300, ncnn_Convolution=104),
        row(seven, sparkle_checked=100, torch_NCHW=96),  # among the others there
        row(
            "gemm f32 8x8x8", sparkle_checked=100, sparkle_plan=40, sparkle_bind=50, numpy_matmul=90
        ),
        row("gemm f32 1024x1024x1024", sparkle_checked=2 * 1024**3 / 96, numpy_matmul=1e8),
        row("map four 10M", sparkle_checked=160e6 / 34.1, numexpr_evaluate=1e7),
    ]
    found = {line.what: line for line in shows.lines(rows, ROOF)}
    holds = {what: line.holds for what, line in found.items()}
    assert holds["3x3 stride 1, C >= 64: best of torch, geometric mean"] is True
    assert holds["3x3 stride 1, C >= 64: ncnn, geometric mean"] is False
    assert holds["3x3 stride 1, C >= 64: best peer, each"] is False
    assert batch in found["3x3 stride 1, C >= 64: best peer, each"].figure
    assert WIDE not in found["3x3 stride 1, C >= 64: best peer, each"].figure
    assert holds["other convolutions: best peer, each"] is False
    assert seven in found["other convolutions: best peer, each"].figure
    assert holds["gemm 8 cubed: np.matmul(out=)"] is False
    assert holds["gemm 8 cubed with plan(): np.matmul(out=)"] is True
    assert holds["gemm 8 cubed with plan().bind(): np.matmul(out=)"] is False
    assert holds["gemm 16 cubed: np.matmul(out=)"] is None
    assert holds["gemm 1024 cubed: of the FMA peak"] is True
    assert found["gemm 1024 cubed: of the FMA peak"].figure == "96.0%"
    assert holds["gemm f64 cubes: np.matmul(out=), each"] is None
    assert holds["map of 4 operations, 10 M floats: of the copy rate"] is True
    assert holds["map of 4 operations, 10 M floats: numexpr"] is True
    assert holds["errors against float64 over rms, every case"] is True
    wrong = [row(STEM, sparkle_checked="wrong", torch_NCHW=100)]
    line = shows.lines(wrong, ROOF)[-1]
    assert (line.holds, line.figure) == (False, f"{STEM} checked: wrong".replace(
        " checked", " sparkle checked"))  # fmt: skip


def test_a_report_names_what_was_wrong_and_who_was_missing():
    rows = [row(STEM, sparkle_checked="wrong", torch_NCHW=100.0, ncnn_Convolution="failed")]
    del rows[0]["ways"]["ncnn Convolution"]["error"]
    told = report.document(rows, {"1": ROOF})
    known = ("cpu", "date", "commit", "load_1min", "kernel", "python")
    told |= {"env": dict.fromkeys(known, "?"),
             "label": "a trial", "quick": True, "interrupted": True,
             "removed": {"MKL_X": "1"},
             "peers": {"torch": {"version": "2"}, "numexpr": {"absent": "no module"}}}  # fmt: skip
    text = report.markdown(told)
    for words in ("* numexpr: absent, no module", "MKL_X=1", "a trial, not a measurement",
                  "| conv 7x7 s2 3->64 @224 N=1 | wrong | - | 1.0e-06 |", "Not whole", "a trial.",
                  "ncnn Convolution failed", "FMA peak 100.0 GFLOPS"):  # fmt: skip
        assert words in text
    assert not report.measured(rows)
    assert report.ratios(rows[0]) == {"best": None, "each": {}}


@pytest.mark.parametrize(
    ("isa", "far", "holds"), [("avx2", 4.9, True), ("ref", 5.1, False), ("avx512", None, None)]
)
def test_the_tile_model_is_within_five_per_cent_or_not(isa, far, holds):
    rows = [{"case": SMALL.name, "isa": isa, "note": "no such CPU",
             "distance_percent": None if far is None else [far, 1.0, 9.0],
             "model_s": 2e-6, "best_s": 1e-6, "tried": 3}]  # fmt: skip
    (line,) = tiles.lines(rows)
    assert line.holds is holds
    assert isa in line.what
    assert tiles.measured(rows) is (far is not None)
    assert (far is not None) or tiles.cells(rows[0])[-1] == "no such CPU"
    told = {"rows": rows, "shows": [line.as_json()], "label": "", "interrupted": False,
            "budget_s": 1.0,
            "env": dict.fromkeys(("cpu", "date", "commit", "load_1min"), "?")}  # fmt: skip
    assert SMALL.name in tiles.markdown(told)


def test_the_tile_model_is_tuned_in_a_child(tmp_path, monkeypatch):
    monkeypatch.setattr(tiles, "sets", lambda: ("ref",))
    env = environment.cleaned(os.environ, 1, tmp_path, [ROOT])
    cpus = sorted(os.sched_getaffinity(0))[-1:]
    (one,) = tiles.run([SMALL, ALL["map four 1k"]], cpus, env, 0.2)
    assert (one["case"], one["isa"]) == (SMALL.name, "ref")
    assert one["distance_percent"][0] >= 0
    assert one["tried"] >= 1
    with pytest.raises(RuntimeError, match=r"bench\.py tune: status 2"):
        roofs.bench(["tune", "no_such_kernel"], cpus, env)


def run(*words):
    return cpu_peers.main([*words, "--threads", "1"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--peers", "numpy,fortran"), "no such peer: fortran"),
        (("--only", "("), "--only"),
        (("--only", "no such case"), "no case has 'no such case'"),
        (("--threads", "5000"), "--threads: 1 to"),
        (("--threads", "one"), "numbers like 1,2"),
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
    monkeypatch.setattr(station, "interpreter", lambda name: sys.executable)
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
    assert [set(one["ways"]) for one in rows] == [{"sparkle checked", "sparkle NHWC"}] * 2
    assert all(entry["verdict"] == "right" for one in rows for entry in one["ways"].values())


@pytest.mark.usefixtures("roofless")
def test_without_ours_or_with_a_line_that_does_not_hold_it_fails(tmp_path, monkeypatch):
    words = ("--quick", "--only", "gemm f32 8x8x8", "--json", str(tmp_path / "x.json"))
    assert run(*words, "--peers", "numpy") == 1
    never = shows.Line("never", ">= 1x", "0x", False)
    monkeypatch.setattr(shows, "lines", lambda rows, roofs: [never])
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
