"""Commands run, kernel and peak: make the jobs, measure them one by one, write what is done after
every row.

Whatever happens (a failed row, Ctrl-C, an unwritable home or file), the table has the rows so far,
and so have the files, each of them whole.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from _console import table
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
    emulated,
    engine,
    launch_cost,
    meter,
    peak,
    self_test,
    versus,
)
from _bench.measure.engine import Settings, Stuck
from _bench.measure.meter import Meter
from _bench.report import row_table
from _bench.report.writers import Outputs
from _bench.rows import compare
from _bench.rows.results import Report, Row
from _bench.tune.sweep_search import SweepSearch

if TYPE_CHECKING:
    import sparkle_drv as sp

Task = tuple[Job, str]


def fresh_seed() -> int:
    return secrets.randbits(32)


@dataclass
class Session:
    """One invocation: devices to visit, how to measure, where results go."""

    uris: Sequence[str]
    settings: Settings
    outputs: Outputs
    report: Report = field(default_factory=lambda: Report(env.describe()))
    threshold: float = compare.THRESHOLD  # of a job against its rivals
    sweep: bool = False  # the table of the kernel command
    isolated: bool = False  # measure in a child process
    search: SweepSearch | None = None  # of the kernel command

    def __post_init__(self) -> None:
        self.outputs.check()
        self.report.extra["seed"] = self.settings.seed

    def measure(self, tasks_of: Callable[[sp.Device], Sequence[Task]]) -> int:
        """Runs the tasks of every device, prints the table, returns the exit code."""
        try:
            for info, tasks in self._planned(tasks_of):
                self._one_device(info, tasks)
        except KeyboardInterrupt:
            self.report.interrupted = True
        except Stuck as stuck:
            self.report.rows.append(stuck.row)
        except Exception:  # a lost device, for one: main tells it, and the rows before it are good
            if self.report.rows:
                self.finish()
            raise
        return self.finish()

    def _planned(
        self, tasks_of: Callable[[sp.Device], Sequence[Task]]
    ) -> list[tuple[sp.DeviceInfo, Sequence[Task]]]:
        """Opens all devices once and makes all jobs: what is wrong is said before any work."""
        planned = []
        for uri in self.uris:
            with devices.opened(uri) as device:
                tasks = tasks_of(device)
                for job, mode in tasks:
                    emulated.check_job(job, mode, device.info)
                    nsets = engine.sets(job, mode, device.info, 1 + len(job.rivals))
                    headroom.check_job(job, nsets, device.info)
                planned.append((device.info, tasks))
        return planned

    def _one_device(self, info: sp.DeviceInfo, tasks: Sequence[Task]) -> None:
        with self._meter(info) as made, Progress(len(tasks)) as progress:
            places: dict[int, Sequence[Row]] = {}
            before = list(self.report.rows)

            def measure(job: Job, mode: str, total: int = len(tasks)) -> Sequence[Row]:
                progress.total = total
                progress.step(f"{info.uri} {job.kernel} {job.label} {mode}")
                return made.rows(job, mode)

            def put(place: int, rows: Sequence[Row]) -> None:
                places[place] = rows
                self.report.rows = [*before, *(row for at in sorted(places) for row in places[at])]
                self.told(info, made.roof())
                self.outputs.so_far(self.report)

            self._self_test(info, made, "start")
            if self.search:
                self._searched(self.search, dict(enumerate(tasks)), measure, put)
            else:
                for place, (job, mode) in enumerate(tasks):
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
        """Puts a self-test into the document."""
        found = made.self_test()
        if found is not None:
            tests = self.report.extra.setdefault("self_test", {}).setdefault(info.uri, {})
            tests[when] = found

    def told(self, info: sp.DeviceInfo, roof: Roof | None) -> None:
        """Puts a device's roof into the document."""
        if roof is None:
            return
        self.report.extra.setdefault("roofs", {})[info.uri] = {
            "gflops": dict(roof.gflops),
            "gbytes_per_s": dict(roof.gbytes_per_s),
        }

    def finish(self, more: Callable[[], None] = lambda: None) -> int:
        """Table on stdout and `more` below it, failures on stderr, and then the files; 1 when a row
        failed or a file could not be written.
        """
        rows = self.report.rows
        if rows:
            print(heading(self.report))
            row_table.show(rows, self.sweep)
            versus.show(rows)
        for one in self.search.found if self.search else ():
            print(one.sentence())
        more()
        broken = [row for row in rows if "what" in row.error]
        for row in broken:
            label = row.extra.get("label", "")
            line = f"FAILED {row.subject.kernel} {label} {row.subject.mode}: {row.reason}"
            print(" ".join(line.split()), file=sys.stderr)
        for row in rows:
            if row.reason == "no reference" and "what" not in row.error:
                say = "" if row.measured else "; not timed (--unverified times it all the same)"
                print(f"UNVERIFIED {row.subject.kernel}: no --ref{say}", file=sys.stderr)
        if self.report.interrupted:
            print(f"interrupted: {len(rows)} rows are complete", file=sys.stderr)
        saved = self.outputs.save(self.report)
        return FAILED if broken or self.report.interrupted or not saved else OK


def heading(report: Report) -> str:
    """What the table was measured on, in one line."""
    e = report.env
    names = list(dict.fromkeys(row.subject.device_name for row in report.rows))
    parts = [
        ", ".join(names),
        f"sparkle_drv {e.get('sparkle_drv')}",
        str(e.get("commit") or "no commit"),
    ]
    tests = "".join(
        f"; {self_test.words(found)}" for found in report.extra.get("self_test", {}).values()
    )
    load = f"load {e.get('load_1min')}; seed {report.extra.get('seed')}"
    return f"# {'; '.join(parts)}; {load}{tests}"


def manifest_tasks(
    names: Sequence[str], axes: Sequence[str], modes: Sequence[str], seed: int
) -> Callable[[sp.Device], list[Task]]:
    """For a device: the jobs of the named kernels (none named: the default set) at all points, in
    all modes.
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
    """What a launch costs on every device."""
    try:
        for uri in session.uris:
            with devices.opened(uri) as device, Progress(1) as progress:
                progress.step(f"{uri}: launch")
                session.report.rows += launch_cost.measure(
                    device, manifest(device), session.settings
                )
                session.outputs.so_far(session.report)
    except KeyboardInterrupt:
        session.report.interrupted = True
    except Stuck as stuck:
        session.report.rows.append(stuck.row)
    return session.finish()


def run_peak(session: Session) -> int:
    """Measures the roofs of every device."""

    def visit() -> Iterator[tuple[str, str, str]]:
        for uri in session.uris:
            with devices.opened(uri) as device, Progress(len(roofs.KERNELS)) as progress:
                emulated.refuse(device.info, "peak")
                roof, rows = peak.measure(device, manifest(device), session.settings, progress.step)
                session.report.rows += rows
                session.told(device.info, roof)
                session.outputs.so_far(session.report)
                for kind, value in roof.gflops.items():
                    yield uri, f"flops {kind}", f"{value:.1f} GFLOPS"
                for kind, value in roof.gbytes_per_s.items():
                    yield uri, f"memory {kind}", f"{value:.1f} GB/s"

    try:
        lines = list(visit())
    except KeyboardInterrupt:
        session.report.interrupted = True
        lines = []
    except Stuck as stuck:
        session.report.rows.append(stuck.row)
        lines = []

    def show() -> None:
        print()
        table.show(("device", "roof", "value"), lines)

    return session.finish(show)
