"""A short form of `make cuda-sweep`: calls of the driver that fail in every manner, with results
that do and do not lose the device (cuda_sweep.py).

When this fails, a failing call of NVIDIA's driver hangs or crashes the process.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack

import cuda_sweep
import forked
import pytest
from fakecuda import library

CALLS = (
    ("cuEventRecord", "cuStreamQuery", "cuEventQuery"),
    ("cuLaunchKernel", "cuMemcpyAsync", "cuCtxGetCurrent", "cuStreamCreate"),
)


CODES = (2, 4, 201)
CODE = f"import runpy; runpy.run_path({cuda_sweep.__file__!r}, run_name='__main__')"


def swept(*calls: str) -> int:
    """How many ways to fail were well. A process for each call and code, all at once: they mostly
    wait for a second in which errors are borne."""
    env = os.environ | {"SPARKLE_LIBCUDA": library()}
    ways = 0
    with ExitStack() as stack:
        started = [
            stack.enter_context(forked.start(CODE, call, "--codes", code, env=env))
            for call in calls
            for code in CODES
        ]
        for child in started:
            out, err = child.communicate(100)
            assert child.returncode == 0, out + err[-500:]
            said = re.search(r"(\d+) ways to fail, 0 of them wrong", out)
            assert said, out
            ways += int(said[1])
    return ways


@pytest.mark.parametrize("calls", CALLS, ids=lambda calls: calls[0])
def test_calls_that_fail_end_well_or_in_an_error_that_names_them(calls):
    assert swept(*calls) == len(calls) * len(CODES) * len(cuda_sweep.MANNERS)


def test_the_sweep_sees_what_is_wrong():
    """A workload that is not told of a failure, or whose error names nothing, is not well."""
    load = cuda_sweep.Workload()

    def fails():
        raise cuda_sweep.sp.SparkleError("something went wrong")

    load.step(fails)
    load.equal("sum", cuda_sweep.np.ones(3), 2)
    assert len(load.wrong) == 2
