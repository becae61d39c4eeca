"""Is anybody else using the machine's cores? What is chosen by times taken beside other work may be
wrong for a machine that has none. Linux only; where /proc is not there, nobody is seen.

Called by engine.py, and by tune.py for devices that share the host's cores.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

NOTED, TOO_MUCH = 0.10, 0.25
"""Shares of all cores that others took: from which it is said, and from which nothing is kept."""
RESTED_S = 1.0
_TASKS = Path("/proc/self/task")
_TICKS = os.sysconf("SC_CLK_TCK")


def _busy_s(text: str) -> float:
    """Seconds that all cores of the machine worked, from the first line of /proc/stat: user, nice,
    system, irq, softirq (idle, iowait and steal are not work of this machine)."""
    fields = text.split("\n", 1)[0].split()
    if fields[:1] != ["cpu"] or len(fields) < 8:
        return 0.0
    user, nice, system, _idle, _iowait, irq, softirq = (int(f) for f in fields[1:8])
    return (user + nice + system + irq + softirq) / _TICKS


def rested(most_s: float = RESTED_S, tasks: Path = _TASKS) -> bool:
    """Wait until no other thread of this process runs, for so long at most; does none? Those of
    numpy's BLAS spin for 0.1 s behind each product, on cores that a kernel is to have.
    """
    own, until = str(threading.get_native_id()), time.monotonic() + most_s
    while any(_runs(task) for task in tasks.glob("[0-9]*") if task.name != own):
        if time.monotonic() >= until:
            return False
        time.sleep(0.005)
    return True


def _runs(task: Path) -> bool:
    """Does a thread run, or wait for a core? Its state stands behind its name, which may have
    anything in it (proc_pid_stat(5))."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[:1] == ["R"]
    except OSError:  # it has ended
        return False


class Watch:
    """From when it is made: `others()` is the share of all cores that other processes took."""

    def __init__(self, stat: Path = Path("/proc/stat")) -> None:
        self._stat = stat
        self._begin = self._now()

    def _now(self) -> tuple[float, float, float]:
        try:
            busy = _busy_s(self._stat.read_text())
        except (OSError, ValueError):
            busy = 0.0
        return time.monotonic(), busy, time.process_time()

    def others(self) -> float:
        (wall, busy, own), (wall0, busy0, own0) = self._now(), self._begin
        spent = (wall - wall0) * (os.cpu_count() or 1)
        return max(0.0, busy - busy0 - (own - own0)) / spent if spent > 0 else 0.0
