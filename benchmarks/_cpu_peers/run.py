"""All child processes of a run, and the run itself: case after case, and each number of threads in
turn.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import environment, measure, reference, report
from .cases import Case
from .peer_process import Lost, PeerProcess

BENCHMARKS = Path(__file__).resolve().parents[1]
LIVES = 3  # a peer whose processes have died this often is not started again


class PeerProcesses:
    """All child processes of a run. `at(threads)` returns the live processes with that number of
    threads, this package's first.
    """

    def __init__(
        self, names: Sequence[str], cpus: Mapping[int, Sequence[int]], folder: Path
    ) -> None:
        self.folder, self.cpus = folder, cpus
        self.peers: dict[str, dict[str, Any]] = {}
        self._processes: dict[tuple[str, int], PeerProcess | None] = {}
        self._lives = dict.fromkeys(names, LIVES)
        for name in names:
            for threads in cpus:
                self._processes[name, threads] = self._start(name, threads)

    def environment(self, threads: int) -> dict[str, str]:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        return environment.cleaned(os.environ, threads, home, [BENCHMARKS, BENCHMARKS.parent])

    def _start(self, name: str, threads: int) -> PeerProcess | None:
        try:
            made = PeerProcess(
                name, threads, self.cpus[threads], self.environment(threads), self.folder
            )
        except Lost as lost:
            self.peers[name] = {"absent": str(lost)}
            return None
        if made.absent:
            made.close()
            self.peers[name] = {"absent": made.absent}
            return None
        self.peers[name] = {"version": made.version}
        return made

    def at(self, threads: int) -> list[PeerProcess]:
        """Returns the processes with this number of threads. First restarts those that have died,
        unless their peer has died LIVES times.
        """
        for (name, count), process in self._processes.items():
            if count == threads and process is not None and not process.alive:
                self._lives[name] -= 1
                again = self._lives[name] > 0
                self._processes[name, count] = self._start(name, count) if again else None
        found = [s for (_, count), s in self._processes.items() if count == threads]
        return [process for process in found if process is not None]

    def close(self) -> None:
        for process in self._processes.values():
            if process is not None:
                process.close()


def run(
    chosen: Sequence[Case], there: PeerProcesses, settings: measure.Settings, budget_s: float
) -> Iterator[dict[str, Any]]:
    """Yields a row for each case and number of threads. Starts no case after `budget_s`."""
    begun = time.monotonic()
    for case in chosen:
        if time.monotonic() - begun > budget_s:
            return
        given = reference.operands(case, settings.seed)
        want = reference.expected(case, given)
        reference.write(given, there.folder)
        del given
        for threads in there.cpus:
            ways = measure.case(case, there.at(threads), settings, there.folder, want)
            row = {
                "case": case.name, "kind": case.kind, "group": case.group, "threads": threads,
                "flops": case.of.flops, "nbytes": case.of.nbytes, "ways": ways,
            }  # fmt: skip
            yield {**row, "ratios": report.ratios(row)}
        for file in there.folder.glob("?.npy"):
            file.unlink()
