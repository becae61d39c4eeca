"""Measures one row: check, time, check again; only then the row has a time. Every command gets its
times here, for every device.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from _bench.jobs import cache_reach
from _bench.jobs.job import Job
from _bench.machine import noise, other_load
from _bench.rows import stats
from _bench.rows.overhead import Overhead
from _bench.rows.results import Measured, Row, Share, Subject

from . import emulated_rows, interleaved_roofs, pipeline_mode, timing, verify
from .bound import Bound
from .probes import Gauges
from .stop_rule import StopRule

if TYPE_CHECKING:
    import sparkle_drv as sp

T = TypeVar("T")
DRIFT_NOTED = 0.1
LEAST_LAUNCH_S, LAUNCH_TIMEOUTS = 10.0, 10
NO_ERROR = {"max_rel_rms": None, "tolerance": None}  # for a row without an oracle


@dataclass(frozen=True)
class Settings:
    """The settings of a run's measurements, the same for all its rows."""

    seed: int
    precision: float = 0.01
    timeout_s: float = 5.0
    least: int = 20
    unverified: bool = False
    launch_s: float = 0.0

    @property
    def launch_timeout_s(self) -> float:
        """Seconds after which a launch counts as hung."""
        return self.launch_s or max(LEAST_LAUNCH_S, LAUNCH_TIMEOUTS * self.timeout_s)

    @property
    def rule(self) -> StopRule:
        return StopRule(self.precision, self.timeout_s, self.least)


class Stuck(Exception):
    """Says that a launch did not end in time, so that the device accepts no more work. `row` has
    details.
    """

    def __init__(self, row: Row) -> None:
        super().__init__(row.reason)
        self.row = row


def run(job: Job, device: sp.Device, mode: str, settings: Settings, gauges: Gauges | None) -> Row:
    """Measures a job. An error on the device becomes a failed row, not an exception.

    Raises Stuck when a launch does not end. KeyboardInterrupt and UsageError pass through.
    """
    subject = subject_of(job, device.info, mode)
    row = attempt(
        subject,
        told(job, settings),
        settings,
        lambda: _run(job, device, mode, settings, subject, gauges),
    )
    return finish(row, job, device.info, settings)


def told(job: Job, settings: Settings) -> dict[str, Any]:
    """Returns what a row stores about its job and the run: the seed, the job's label, types and
    shapes of operands, and the entries of `job.extra`.
    """
    operands = [f"{o.type}[{','.join(map(str, o.shape))}]" for o in job.operands]
    return {"seed": settings.seed, "label": job.label, "operands": operands, **job.extra}


def attempt(
    subject: Subject, extra: Mapping[str, Any], settings: Settings, work: Callable[[], T]
) -> T | Row:
    """Returns the result of `work`. If the device or the kernel fails, returns a failed row with
    the reason.

    If a launch does not end in time, raises Stuck. The failed row in the Stuck also has the entries
    of `extra`. KeyboardInterrupt and UsageError of `work` pass through.
    """
    import sparkle_drv as sp

    try:
        return work()
    except sp.FenceTimeout as error:
        said = " ".join(str(error).split())
        given = (
            f"{settings.launch_timeout_s:g} s were given (--launch-timeout or --timeout raise that)"
        )
        what = f"hung: {said}; {given}"
        row = Row.failed(subject, {"what": what}, what)
        row.extra |= extra
        raise Stuck(row) from error
    except (sp.SparkleError, MemoryError, OSError, ValueError, TypeError) as error:
        what = f"{type(error).__name__}: {error}"
        if isinstance(error, OSError) and error.errno == errno.EINTR:
            raise KeyboardInterrupt from error
        return Row.failed(subject, {"what": what}, what)


def finish(row: Row, job: Job, info: sp.DeviceInfo, settings: Settings) -> Row:
    """Adds what `told` returns about the job to the row, and the job's notes. A timed row also gets
    its rates. Returns the row.
    """
    row.extra |= told(job, settings)
    row.notes += job.notes
    if row.measured and not info.emulated:
        rate(row, job, row.extra.pop("flops", job.flops))
    return row


def lost(job: Job, info: sp.DeviceInfo, mode: str, settings: Settings) -> Row:
    """Returns a failed row for a job that must not be run again, with `job.lost` as the reason."""
    row = Row.failed(subject_of(job, info, mode), {"what": job.lost}, job.lost)
    return finish(row, job, info, settings)


def subject_of(job: Job, info: sp.DeviceInfo, mode: str) -> Subject:
    return Subject(job.kernel, info.uri, info.name, info.emulated, job.axes, mode)


def sets(job: Job, mode: str, info: sp.DeviceInfo, sharers: int = 1) -> int:
    """Returns how many sets of the job's operands the launches of a mode use in turn."""
    if mode == "cold":
        return timing.cold_sets(job.footprint, info, sharers)
    return timing.PIPELINE_DEPTH if mode == "pipeline" else 1


def _run(
    job: Job,
    device: sp.Device,
    mode: str,
    settings: Settings,
    subject: Subject,
    gauges: Gauges | None,
) -> Row:
    nsets = sets(job, mode, device.info)
    with Bound(job, device, settings.seed, nsets, settings.launch_timeout_s) as bound:
        if row := refused(bound, subject, settings):
            return row
        bound.fill_all()
        if device.info.emulated:
            measured, submission = emulated_rows.take(bound, settings.rule)
            row = judged(bound, subject, measured, mode, nsets)
            if row.measured is not None:
                row.submission = submission
            return row
        other_load.rested()  # waits for numpy's threads, which the oracle started
        watch = noise.Watch(device._backend.sensors)
        measured, overhead, share = _take(bound, mode, settings, gauges)
        disturbed = watch.noise()
        row = judged(bound, subject, measured, mode, nsets)
        if row.measured is not None:
            row.overhead, row.share, row.noise = overhead, share, disturbed
        return row


def refused(bound: Bound, subject: Subject, settings: Settings) -> Row | None:
    """Checks the kernel before timing. Returns None if the job may be timed, otherwise the row: its
    check failed, or it has no reference.
    """
    verdict = bound.check(0)
    if not verdict.ok:
        return Row.failed(subject, verdict.error, f"before timing: {verdict.sentence}")
    bound.passed = verdict
    if bound.job.is_judged or settings.unverified:
        return None
    row = Row(subject, False, NO_ERROR, reason="no reference")
    row.extra["resources"] = asdict(bound.kernel.resources)
    return row


def judged(bound: Bound, subject: Subject, measured: Measured, mode: str, nsets: int) -> Row:
    """Checks the kernel again after timing. Returns the row with its time, or a failed row
    without a time.
    """
    job = bound.job
    after = bound.check(1)
    if not after.ok:
        return Row.failed(subject, after.error, f"after timing: {after.sentence}")
    error = verify.worst_of([bound.passed, after]).error if job.oracle else NO_ERROR
    reason = None if job.is_judged else "no reference"
    row = Row(subject, job.is_judged, error, measured, reason=reason)
    row.extra |= {"flops": bound.flops(), "resources": asdict(bound.kernel.resources)}
    row.notes += _notes(measured, job, mode, nsets, bound.device.info)
    if mode == "cold":
        row.extra["cold_sets"] = nsets
    return row


def _take(
    bound: Bound, mode: str, settings: Settings, gauges: Gauges | None
) -> tuple[Measured, Overhead | None, Share | None]:
    # After a failure the sampler is not closed, because closing would wait for the stuck launch.
    # The sampler's resources are freed with `bound`, the kernel and arrays that are measured.
    overhead = None
    sampler: timing.Sampler
    if mode == "pipeline":
        ways = pipeline_mode.ThreeWays(bound)
        sampler = pipeline_mode.Pipelined(ways)
        measured, overhead = pipeline_mode.take(ways, lambda: settings.rule)
        share = interleaved_roofs.share_of(bound, sampler, settings.rule, gauges)
    else:
        sampler = timing.steady(bound, mode)
        measured, share = interleaved_roofs.take(bound, sampler, settings.rule, gauges)
    sampler.close()
    return measured, overhead, share


def _notes(measured: Measured, job: Job, mode: str, nsets: int, info: sp.DeviceInfo) -> list[str]:
    notes = []
    moved = stats.drift(measured.samples)
    if abs(moved) > DRIFT_NOTED:
        notes.append(f"drifted {moved:+.0%} while measured")
    beyond = nsets * job.footprint >= cache_reach.beyond_nbytes(info)
    if mode == "cold" and not info.emulated and not beyond:
        notes.append(f"{nsets} sets do not exceed the cache: not fully cold")
    return notes


def rate(row: Row, job: Job, flops: float) -> None:
    """Writes GFLOPS and GB/s into the row, computed from the row's median time."""
    time = row.time
    if time is None or time.median <= 0:
        return
    row.gflops = flops / time.median if flops else None
    row.gbytes_per_s = job.nbytes / time.median if job.nbytes else None
    row.extra |= {"flops": flops, "nbytes": job.nbytes}
