"""benchmarks/cpu_peers.py: ratios, intervals, the lines that hold or not, and the report.

When this fails, the published ratios to other libraries are wrong.
"""

from __future__ import annotations

import numpy as np
import pytest
from peerskit import ALL, ROOF, figures, goals, report

pytestmark = pytest.mark.setup


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
        row(
            "map four 10M", sparkle_checked=160e6 / 30, sparkle_copy=80e6 / 35,
            sparkle_saxpy=120e6 / 34, numexpr_evaluate=1e7,
        ),
    ]  # fmt: skip
    found = {line.what: line for line in goals.lines(rows, ROOF)}
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
    copied = found["map of 4 operations, 10 M floats: of the copy rate"]
    assert copied.holds is True
    assert copied.figure == (
        "85.7% of 35.0 GB/s in turn with it; 88.2% of a saxpy in place, 34.0; "
        "75.0% of the best sustained before, 40.0"
    )
    faster = row("map four 10M", sparkle_checked=160e6 / 30, sparkle_copy=80e6 / 36)
    unknown = row("map four 10M", sparkle_checked=160e6 / 30, numexpr_evaluate=1e7)
    judged = [goals.lines([one], ROOF)[-3] for one in (faster, unknown)]
    assert [(line.what, line.holds) for line in judged] == [(copied.what, x) for x in (False, None)]
    assert holds["map of 4 operations, 10 M floats: numexpr"] is True
    assert holds["errors against float64 over rms, every case"] is True
    wrong = [row(STEM, sparkle_checked="wrong", torch_NCHW=100)]
    line = goals.lines(wrong, ROOF)[-1]
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
