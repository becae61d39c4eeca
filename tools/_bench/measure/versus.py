"""Compares kernels in one run: the same inputs, all checked, then samples in turns. Each round has
a random order, so that the machine's changes affect all kernels alike.

A ratio is a rival's time over the job's; its verdict follows from the medians (shift.rivals).
Without an oracle the outputs are compared with the job's: a kernel whose outputs differ fails.
Called by runner.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from _bench.jobs import cache_reach
from _bench.jobs.job import Job
from _bench.rows import shift
from _bench.rows.results import Measured, Row, Subject

from . import engine, interleaved_roofs, timing, verify
from .bound import Bound, timing_queue
from .engine import Settings
from .probes import Gauges
from .timing import Sampler

if TYPE_CHECKING:
    import sparkle_drv as sp

T = TypeVar("T")
# All kernels of a comparison have batches that suit the fastest kernel. If the slowest takes more
# than this many times as long, the batches of all are made shorter.
MOST_UNEQUAL = 100


@dataclass
class Entrant:
    """One of the kernels that are compared. `row` is set when the kernel needs no further
    measurement.
    """

    job: Job
    subject: Subject
    bound: Bound | None = None
    row: Row | None = None
    sampler: Sampler | None = None
    device_ns: list[float] = field(default_factory=list)
    host_ns: list[float] = field(default_factory=list)
    stop: str | None = None

    @property
    def is_broken(self) -> bool:
        return self.row is not None and "what" in self.row.error

    def attempt(self, settings: Settings, work: Callable[[], T]) -> T | None:
        """Returns the result of `work`. If the device refuses the work, sets a failed row and
        returns None.
        """
        extra = engine.told(self.job, settings)
        done = engine.attempt(self.subject, extra, settings, work)
        if isinstance(done, Row):
            self.row = done
            return None
        return done

    def measured(self, sampler: Sampler) -> Measured:
        how = sampler.primary, sampler.batch, self.stop or ""
        return Measured(self.device_ns, self.host_ns, *how)


def rows(
    job: Job,
    device: sp.Device,
    mode: str,
    settings: Settings,
    gauges: Gauges | None,
    threshold: float = shift.THRESHOLD,
) -> list[tuple[Row, Job]]:
    """Returns the rows of a job and its rivals, in order, or the one row of a job without rivals.
    Raises the exceptions of `engine.run`.
    """
    if not job.rivals:
        return [(engine.run(job, device, mode, settings, gauges), job)]
    jobs = (job, *job.rivals)
    entrants = [Entrant(one, engine.subject_of(one, device.info, mode)) for one in jobs]
    with ExitStack() as stack:
        _load(entrants, device, mode, settings, stack)
        _agree(entrants)
        _take(entrants, mode, settings)
        for e in entrants:
            _judge(e, mode, settings, gauges)
        _agree(entrants)
    found = [e.row for e in entrants if e.row is not None]
    for row, one in zip(found, jobs, strict=True):
        engine.finish(row, one, device.info, settings)
    _compare(found, threshold)
    return list(zip(found, jobs, strict=True))


def _load(
    entrants: Sequence[Entrant], device: sp.Device, mode: str, settings: Settings, stack: ExitStack
) -> None:
    """Loads all kernels on one queue, because the idle worker of a second queue would disturb the
    first. Each kernel is checked before the next is compiled.
    """
    queue = stack.enter_context(timing_queue(device))
    for e in entrants:
        nsets = engine.sets(e.job, mode, device.info, len(entrants))
        how = e.job, device, settings.seed, nsets, settings.launch_timeout_s, queue
        if e.job.lost:
            e.row = engine.lost(e.job, device.info, mode, settings)
            continue
        e.bound = e.attempt(settings, partial(Bound, *how))
        if e.bound:
            stack.enter_context(e.bound)
            work = partial(engine.refused, e.bound, e.subject, settings)
            e.row = e.attempt(settings, work) or e.row


def _agree(entrants: Sequence[Entrant]) -> None:
    """For jobs without an oracle, compares the outputs of each kernel's last check with those of
    the first kernel.
    """
    first = entrants[0]
    if first.job.is_judged or first.is_broken or not first.bound:
        return
    for e in entrants[1:]:
        if e.is_broken or not e.bound:
            continue
        what = f"differs from {first.job.kernel}"
        verdict = verify.worst_of(
            [
                verify.against(name, e.bound.outputs[name], want, e.job.tolerance, what)
                for name, want in first.bound.outputs.items()
            ]
        )
        if not verdict.ok:
            e.row = Row.failed(e.subject, verdict.error, verdict.sentence)


def _take(entrants: Sequence[Entrant], mode: str, settings: Settings) -> None:
    """Runs rounds of one sample of each kernel in random order, until all kernels have
    enough samples.
    """
    _prepare(entrants, mode, settings)
    racing = [(e, e.sampler, settings.rule) for e in entrants if e.sampler]
    for e, sampler, rule in racing:
        e.attempt(settings, partial(timing.warm_up, sampler, rule))
    for *_, rule in racing:
        rule.timeout_s *= len(racing)
    rng = np.random.default_rng(settings.seed)
    start = time.monotonic()
    while any(e.row is None and e.stop is None for e, *_ in racing):
        for at in rng.permutation(len(racing)):
            e, sampler, rule = racing[at]
            again = mode == "hot" and _fits_cache(e)
            taken = None if e.row else e.attempt(settings, partial(_sample, sampler, again))
            if taken:
                e.device_ns.append(taken[0])
                e.host_ns.append(taken[1])
                primary = e.device_ns if sampler.primary == "device" else e.host_ns
                e.stop = e.stop or rule.ask(primary, time.monotonic() - start)


def _prepare(entrants: Sequence[Entrant], mode: str, settings: Settings) -> None:
    """Makes samplers with one batch size for all kernels. The launches of one submission share its
    cost, so the submissions of all kernels must have equally many launches.
    """
    estimates = {}
    for at, e in enumerate(entrants):
        if e.bound and e.row is None:
            e.bound.fill_all()
            estimates[at] = e.attempt(settings, partial(timing.estimate, e.bound))
    known = [lasts for lasts in estimates.values() if lasts]
    common = max(min(known, default=0.0), max(known, default=0.0) / MOST_UNEQUAL)
    for at in estimates:
        e = entrants[at]
        if e.bound and e.row is None:
            e.sampler = e.attempt(settings, partial(timing.steady, e.bound, mode, common))


def _sample(sampler: Sampler, again: bool) -> timing.Sample:
    """Takes one sample. With `again`, an untimed launch precedes it, which brings the operands back
    into the caches.
    """
    if again and sampler.batch == 1:
        sampler.sample()
    return sampler.sample()


def _fits_cache(e: Entrant) -> bool:
    if e.bound is None:
        return False
    return e.job.footprint <= cache_reach.caches_nbytes(e.bound.device.info)


def _judge(e: Entrant, mode: str, settings: Settings, gauges: Gauges | None) -> None:
    """Measures the kernel's share of the roof and checks the kernel again after timing. Sets its
    row. Does nothing if the row is set already.
    """
    if e.bound is None or e.row is not None or e.sampler is None:
        return
    nsets = len(e.bound.placements)
    measured = e.measured(e.sampler)
    how = e.bound, e.sampler, settings.rule, gauges
    share = e.attempt(settings, partial(interleaved_roofs.share_of, *how))
    e.sampler.close()
    if e.row is not None:
        return
    work = partial(engine.judged, e.bound, e.subject, measured, mode, nsets)
    e.row = e.attempt(settings, work) or e.row
    if e.row is not None and e.row.measured is not None:
        e.row.share = share


def _compare(rows: Sequence[Row], threshold: float) -> None:
    """Compares every rival with the kernel of the first row. Writes into the rival's row the ratio
    of the rival's time to that kernel's time, and the verdict (SLOW, FAST, SAME or AMBIGUOUS).
    """
    first = rows[0]
    for row in rows[1:]:
        if first.measured and row.measured:
            found = shift.rivals(first.measured.samples, row.measured.samples, threshold)
            row.extra["versus"] = {
                "against": first.subject.kernel,
                "ratio": 1 + found.shift.middle,
                "ci_low": 1 + found.shift.low,
                "ci_high": 1 + found.shift.high,
                "p": found.p,
                "threshold": threshold,
                "verdict": found.verdict,
            }
