"""A short form of `make cuda-sweep`: calls of the driver that fail in every manner, with results
that do and do not lose the device (cuda_sweep.py).

When this fails, a failing call of NVIDIA's driver hangs or crashes the process.
"""

from __future__ import annotations

import os
import subprocess
import sys

import cuda_sweep
import pytest
from fakecuda import library
from where import ROOT, kits

CALLS = (
    ("cuEventRecord", "cuStreamQuery", "cuEventQuery"),
    ("cuLaunchKernel", "cuMemcpyAsync", "cuCtxGetCurrent", "cuStreamCreate"),
)


def swept(*arguments: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"SPARKLE_LIBCUDA": library(), "PYTHONPATH": kits(ROOT)}
    return subprocess.run(
        [sys.executable, cuda_sweep.__file__, *arguments],
        env=env, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("calls", CALLS, ids=lambda calls: calls[0])
def test_calls_that_fail_end_well_or_in_an_error_that_names_them(calls):
    done = swept(*calls, "--codes", "2,4,201")
    assert done.returncode == 0, done.stdout + done.stderr[-500:]
    assert f"{len(calls) * 9} ways to fail, 0 of them wrong" in done.stdout


def test_the_sweep_sees_what_is_wrong():
    """A workload that is not told of a failure, or whose error names nothing, is not well."""
    load = cuda_sweep.Workload()

    def fails():
        raise cuda_sweep.sp.SparkleError("something went wrong")

    load.step(fails)
    load.equal("sum", cuda_sweep.np.ones(3), 2)
    assert len(load.wrong) == 2
