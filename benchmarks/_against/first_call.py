"""Rows: import, `sp.init` and the first `ctx.gemm`, each time in a new process that has imported
numpy. The process tells the time, so the start of Python is left out.

    first gemm               rates are measured
    first gemm, profile      rates are those that an earlier process has kept
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from _cpu_peers.base import Way

from .makers import Makers

LIMIT_S = 25.0
"""Limit of one process, in seconds."""
PROGRAM = """
import time
import numpy as np
a = np.ones((96, 96), np.float32)
begin = time.{clock}()
import sparkle_drv as sp
ctx = sp.init(devices=["cpu"], profile={profile})
c = ctx.gemm(a, a)
print(time.{clock}() - begin)
if (c != 96).any():
    raise ValueError("expected a product of 96 everywhere, got " + str(c))
"""


class Clock:
    """A clock that goes only in the processes that it starts."""

    def __init__(self, program: str) -> None:
        self.program, self.total_s = program, 0.0

    def run(self) -> None:
        """Runs the program, which prints its seconds. Raises ValueError if the program fails."""
        command = [sys.executable, "-c", self.program]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        if done.returncode:
            raise ValueError(f"expected that the program ends well, got {done.stderr[-300:]}")
        self.total_s += float(done.stdout)

    def seconds(self) -> float:
        """Returns the seconds of all processes so far."""
        return self.total_s


def _way(profile: bool, clock_name: str, dev: Any) -> Way:
    clock = Clock(PROGRAM.format(profile=profile, clock=clock_name))
    return Way("run()", {"run": clock.run}, lambda: None, early=1, clock=clock.seconds)


ROWS: Mapping[str, Makers] = {
    name: {
        "checked": partial(_way, profile, "perf_counter"),
        "cpu": partial(_way, profile, "process_time"),
    }
    for name, profile in (("first gemm", False), ("first gemm, profile", True))
}
