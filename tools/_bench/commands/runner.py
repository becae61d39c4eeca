"""Commands run, kernel and peak: make the jobs, measure them one by one, write what is done after
every row.

Whatever happens (a failed row, Ctrl-C, an unwritable home or file), the table has the rows so far,
and so have the files, each of them whole.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from _console import table
from _console.problems import FAILED, OK
from _console.progress import Progress

from _bench.jobs import catalog, roofs
from _bench.jobs.job import Job
from _bench.jobs.roofs import Roof
from _bench.jobs.workloads import DEFAULT, DEFAULT_AXES
from _bench.machine import env, headroom
from _bench.measure import (
    devices,
    emulated,
    engine,
    launch_cost,
    peak,
    probes,
    self_test,
    versus,
)
from _bench.measure.engine import Settings, Stuck
from _bench.measure.probes import Gauges
from _bench.report import row_table
from _bench.report.writers import Outputs
from _bench.rows import compare
from _bench.rows.results import Report

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

    def __post_init__(self) -> None:
        self.outputs.check()
        self.report.extra["seed"] = self.settings.seed

    def measure(self, tasks_of: Callable[[sp.Device], Sequence[Task]]) -> int:
        """Runs the tasks of every device, prints the table, returns the exit code."""
        try:
            for uri, tasks in self._planned(tasks_of):
                with devices.opened(uri) as device:
                    self._one_device(device, tasks)
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
    ) -> list[tuple[str, Sequence[Task]]]:
        """Opens all devices once and makes all jobs: what is wrong is said before any work."""
        planned = []
        for uri in self.uris:
            with devices.opened(uri) as device:
                tasks = tasks_of(device)
                for job, mode in tasks:
                    emulated.check_job(job, mode, device.info)
                    nsets = engine.sets(job, mode, device.info, 1 + len(job.rivals))
                    headroom.check_job(job, nsets, device.info)
                planned.append((uri, tasks))
        return planned

    def _one_device(self, device: sp.Device, tasks: Sequence[Task]) -> None:
        with (
            probes.gauges(device, manifest(device), self.settings) as gauges,
            Progress(len(tasks)) as progress,
        ):
            self._self_test(device.info, gauges, "start")
            for job, mode in tasks:
                progress.step(f"{device.info.uri} {job.kernel} {job.label} {mode}")
                found = versus.rows(job, device, mode, self.settings, gauges, self.threshold)
                self.report.rows += [row for row, _ in found]
                if gauges is not None:
                    self.told(device.info, gauges.best)
                self.outputs.so_far(self.report)
            self._self_test(device.info, gauges, "end")
            if gauges is not None and self.outputs.svg:
                gauges.complete()
                self.told(device.info, gauges.best)

    def _self_test(self, info: sp.DeviceInfo, gauges: Gauges | None, when: str) -> None:
        """Puts a self-test into the document."""
        found = self_test.run(gauges) if gauges is not None else None
        if found is not None:
            tests = self.report.extra.setdefault("self_test", {}).setdefault(info.uri, {})
            tests[when] = found.as_json()

    def told(self, info: sp.DeviceInfo, roof: Roof) -> None:
        """Puts a device's roof into the document."""
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


def manifest(device: sp.Device | None = None) -> dict[str, Any]:
    """The kernels of shaders/manifest.json by name; of a device: those that it provides.

    What a plug-in brings by itself the manifest does not know: whatever has a group size there is
    taken for a grid of such groups, the rest for kernels that know their own.
    """
    from sparkle_drv import assets

    kernels: dict[str, Any] = assets.manifest()["kernels"]
    if device is None:
        return kernels
    backend = device.info.backend
    found = {}
    for name, entry in kernels.items():
        if device.provides(name):
            form = "grid" if "group_size" in entry else "routine"
            found[name] = {**entry, "backends": {backend: {"form": form}, **entry["backends"]}}
    return found


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
