"""benchmarks/cpu_peers.py: its cases, their operands and the limits that judge results.

When this fails, a comparison with another library accepts wrong results.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
from peerskit import ALL, SMALL, cases, environment, reference

pytestmark = pytest.mark.setup


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
