"""Do other processes use the machine's cores? If they do, a plan chosen by measured times may be
wrong for an idle machine.

Linux only: without /proc no other process is seen. Called by engine.py, and by tune.py for devices
that share the host's cores.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

NOTED, TOO_MUCH = 0.10, 0.25
"""Shares of all cores that other processes took. Above the first, the share is printed; above
the second, no result is kept."""
RESTED_S = 1.0
_TASKS = Path("/proc/self/task")
_TICKS = os.sysconf("SC_CLK_TCK")


def _busy_s(text: str) -> float:
    """Returns the seconds that all cores of the machine worked, from the first line of /proc/stat:
    user, nice, system, irq, softirq. Idle, iowait and steal are not work of this machine.
    """
    fields = text.split("\n", 1)[0].split()
    if fields[:1] != ["cpu"] or len(fields) < 8:
        return 0.0
    user, nice, system, _idle, _iowait, irq, softirq = (int(f) for f in fields[1:8])
    return (user + nice + system + irq + softirq) / _TICKS


def rested(most_s: float = RESTED_S, tasks: Path = _TASKS) -> bool:
    """Waits at most `most_s` until no other thread of this process runs. Returns whether none runs.

    Threads of numpy's BLAS spin for 0.1 s after each product, on cores that a kernel needs.
    """
    own, until = str(threading.get_native_id()), time.monotonic() + most_s
    while any(_runs(task) for task in tasks.glob("[0-9]*") if task.name != own):
        if time.monotonic() >= until:
            return False
        time.sleep(0.005)
    return True


def _runs(task: Path) -> bool:
    """Returns whether a thread runs, or waits for a core. In the stat file the state follows the
    thread's name, which may contain any character (proc_pid_stat(5)).
    """
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[:1] == ["R"]
    except OSError:  # the thread has ended
        return False


class Watch:
    """Watches other processes from its construction on. `others()` returns the share of all cores
    that they took.
    """

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
