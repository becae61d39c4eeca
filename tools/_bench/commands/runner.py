"""The run, kernel and peak commands: make the jobs, measure each, write the files after every row.

A failed row, Ctrl-C or an unwritable file costs no other row: the table and the files have all rows
so far, and no file is half written. With --resume, rows of an earlier run are reused.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from _console.problems import FAILED, OK
from _console.progress import Progress

from _bench.jobs import catalog, roofs
from _bench.jobs.catalog import manifest
from _bench.jobs.job import Job
from _bench.jobs.roofs import Roof
from _bench.jobs.workloads import DEFAULT, DEFAULT_AXES
from _bench.machine import env, headroom
from _bench.measure import (
    child,
    devices,
    emulated_rows,
    engine,
    launch_cost,
    meter,
    peak,
)
from _bench.measure.engine import Settings, Stuck
from _bench.measure.meter import Meter
from _bench.report import tables
from _bench.report.writers import Outputs
from _bench.rows import shift
from _bench.rows.results import Report, Row
from _bench.tune.sweep_search import SweepSearch

from .resume import Earlier, Ledger

if TYPE_CHECKING:
    import sparkle_drv as sp

Task = tuple[Job, str]


def fresh_seed() -> int:
    return secrets.randbits(32)


@dataclass
class Session:
    """One run of a command: the devices to visit, how to measure, and where results go."""

    uris: Sequence[str]
    settings: Settings
    outputs: Outputs
    report: Report = field(default_factory=lambda: Report(env.describe()))
    threshold: float = shift.THRESHOLD  # threshold of the verdicts on rivals
    isolated: bool = False  # whether to measure in a child process
    earlier: Earlier | None = None  # the results file that --resume continues
    ledger: Ledger = field(init=False)
    search: SweepSearch | None = None  # what `kernel --search` runs

    def __post_init__(self) -> None:
        self.outputs.check()
        extra = self.report.extra
        extra["seed"] = self.settings.seed
        if self.earlier:
            self.earlier.check(extra["request"], self.report.env)
            extra["roofs"] = dict(self.earlier.document.get("roofs", {}))
        self.ledger = Ledger(self.report, self.earlier)

    def measure(self, tasks_of: Callable[[sp.Device], Sequence[Task]]) -> int:
        """Runs the tasks on every device and prints the table. Returns the exit code."""
        return self.guarded(lambda: self._measure(tasks_of))

    def guarded(self, work: Callable[[], None], more: Callable[[], None] = lambda: None) -> int:
        """Does the work, then finishes the report. Ctrl-C or an exception of `work` does not lose
        the report. Returns the exit code.
        """
        try:
            work()
        except KeyboardInterrupt:
            self.report.interrupted = True
        except Stuck as stuck:
            self.report.rows.append(stuck.row)
        except Exception:  # a lost device, for example; main() reports it
            if self.report.rows:
                self.finish(more)
            raise
        return self.finish(more)

    def _measure(self, tasks_of: Callable[[sp.Device], Sequence[Task]]) -> None:
        for info, places in self._planned(tasks_of):
            if not all(map(self.ledger.is_done, places)):
                self._one_device(info, places)

    def _planned(
        self, tasks_of: Callable[[sp.Device], Sequence[Task]]
    ) -> list[tuple[sp.DeviceInfo, dict[int, Task]]]:
        """Opens all devices once and makes all jobs. Reserves a place among the results for the
        rows of each job, so that the results keep this order.

        Since every job is checked here, an error in the command line ends the command before any
        measurement.
        """
        planned = []
        for uri in self.uris:
            with devices.opened(uri) as device:
                self.ledger.met(device.info)
                places = {}
                for job, mode in tasks_of(device):
                    emulated_rows.check_job(job, mode, device.info)
                    nsets = engine.sets(job, mode, device.info, 1 + len(job.rivals))
                    headroom.check_job(job, nsets, device.info)
                    together = (job, *job.rivals)
                    subjects = [engine.subject_of(one, device.info, mode) for one in together]
                    places[self.ledger.plan(subjects)] = job, mode
                planned.append((device.info, places))
        return planned

    def _one_device(self, info: sp.DeviceInfo, tasks: Mapping[int, Task]) -> None:
        left = {at: task for at, task in tasks.items() if not self.ledger.is_done(at)}
        with self._meter(info) as made, Progress(len(left)) as progress:

            def measure(job: Job, mode: str, total: int = len(left)) -> Sequence[Row]:
                progress.total = total
                progress.step(f"{info.uri} {job.kernel} {job.label} {mode}")
                return made.rows(job, mode)

            def put(place: int, rows: Sequence[Row]) -> None:
                self.ledger.put(place, rows)
                self.told(info, made.roof())
                self.outputs.so_far(self.report)

            self._self_test(info, made, "start")
            if self.search:
                known = {at: self.ledger.rows(at)[0] for at in tasks if at not in left}
                self._searched(self.search, tasks, known, measure, put)
            else:
                for place, (job, mode) in left.items():
                    put(place, measure(job, mode))
            self._self_test(info, made, "end")
            if self.outputs.svg:
                self.told(info, made.roof(complete=True))

    def _searched(self, search: SweepSearch, *work: Any) -> None:
        try:
            search.run(*work)
        finally:
            self.report.extra["search"] = search.as_json()

    def _meter(self, info: sp.DeviceInfo) -> AbstractContextManager[Meter]:
        if self.isolated:
            return child.started(info.uri, info, self.settings, self.threshold)
        return meter.here(info.uri, self.settings, self.threshold)

    def _self_test(self, info: sp.DeviceInfo, made: Meter, when: str) -> None:
        """Makes a self-test of the device and puts the result into the results file. `when` is
        "start" or "end" of the run.
        """
        found = made.self_test()
        if found is not None:
            tests = self.report.extra.setdefault("self_test", {}).setdefault(info.uri, {})
            tests[when] = found

    def told(self, info: sp.DeviceInfo, roof: Roof | None) -> None:
        """Puts a device's roof into the results. If the results have a roof of an earlier run, the
        higher one of each rate is kept.
        """
        if roof is not None:
            known = self.report.extra.setdefault("roofs", {})
            known[info.uri] = asdict(Roof(**known.get(info.uri, {})).raised_to(roof))

    def finish(self, more: Callable[[], None] = lambda: None) -> int:
        """Calls `more`, prints tables and failures and writes the files.

        Returns 1 when a row failed, the run was interrupted or a file could not be written.
        """
        more()
        self.ledger.tell()
        rows = self.report.rows
        if rows:
            tables.show(self.report)
        broken = [row for row in rows if "what" in row.error]
        for row in broken:
            label = row.extra.get("label", "")
            line = f"FAILED {row.subject.kernel} {label} {row.subject.mode}: {row.reason}"
            print(" ".join(line.split()), file=sys.stderr)
        for row in rows:
            if row.reason == "no reference" and "what" not in row.error:
                say = "" if row.measured else "; not timed (--unverified times it anyway)"
                print(f"UNVERIFIED {row.subject.kernel}: no --ref{say}", file=sys.stderr)
        if self.report.interrupted:
            print(f"interrupted: {len(rows)} rows are complete", file=sys.stderr)
        saved = self.outputs.save(self.report)
        return FAILED if broken or self.report.interrupted or not saved else OK


def manifest_tasks(
    names: Sequence[str], axes: Sequence[str], modes: Sequence[str], seed: int
) -> Callable[[sp.Device], list[Task]]:
    """Makes a device's jobs of the named kernels at all points, in all modes. Without names it
    takes the default set.
    """

    def tasks(device: sp.Device) -> list[Task]:
        info, kernels = device.info, manifest(device)
        chosen = catalog.select(names or DEFAULT, kernels, info.backend)
        given = catalog.given_axes(chosen, axes)
        return [
            (catalog.make(kernel, point, info, kernels, seed), mode)
            for kernel in chosen
            for point in catalog.expand(
                kernel, _defaults(kernel, given[kernel], not names and not info.emulated), info
            )
            for mode in modes
        ]

    return tasks


def _defaults(kernel: str, given: dict[str, str], default_set: bool) -> dict[str, str]:
    return {**(DEFAULT_AXES.get(kernel, {}) if default_set else {}), **given}


def run_launch(session: Session) -> int:
    """Measures the cost of a launch on every device."""

    def work() -> None:
        for uri in session.uris:
            with devices.opened(uri) as device, Progress(1) as progress:
                progress.step(f"{uri}: launch")
                for row in launch_cost.measure(device, manifest(device), session.settings):
                    session.report.rows.append(row)
                    session.outputs.so_far(session.report)

    return session.guarded(work)


def run_peak(session: Session) -> int:
    """Measures the roofs of every device."""

    def work() -> None:
        for uri in session.uris:
            with devices.opened(uri) as device, Progress(len(roofs.KERNELS)) as progress:
                emulated_rows.refuse(device.info, "peak")
                found = peak.measure(device, manifest(device), session.settings, progress.step)
                for roof, row in found:
                    session.report.rows.append(row)
                    session.told(device.info, roof)
                    session.outputs.so_far(session.report)

    return session.guarded(work)
