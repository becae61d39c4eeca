"""Probes: the roofs' kernels, sized for one row, and the highest rates that any row of a device has
reached.

interleaved_roofs.py takes the samples. Only the highest rates are kept from row to row: they are
the roofs of the chart that --svg draws.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from _bench.jobs import cache_reach, catalog, fills, plans, roofs
from _bench.jobs.axes import Point
from _bench.jobs.job import Job
from _bench.jobs.roofs import Roof
from _bench.rows import stats
from _bench.rows.results import Share

from . import timing
from .bound import Bound
from .timing import Sampler

if TYPE_CHECKING:
    import sparkle_drv as sp

    from .engine import Settings

log = logging.getLogger("sparkle_drv.bench")
SMALL = 1009  # number of elements, or of rounds of FMAs, at which a kernel is verified: a prime
LEAST_FMA_NS, MOST_FMA_NS = 100e3, 20e6
"""Least and largest ns of a launch of FMAs: long enough to hide the cost of its start, short
enough to repeat."""
NEAR_ROOF = 0.5  # a row at this share of a roof, or above, may be limited by the roof
LAUNCHES = 2  # a stream shorter than so many empty launches says nothing about memory
ROUNDS = 5  # samples of a stream and of empty launches, by turns: a busy host slows down both
# the `kind` of a probe that is no roof of the row, but only shows changes of the machine
REFERENCE = "reference"


@dataclass
class Probe:
    """A kernel of roofs.py on the device. `work` is the flops or bytes per launch.

    `kernel` is the kernel's name. If not all threads run the kernel, the number of threads follows
    the name. `roof` is the name without that number.
    """

    kernel: str
    work: float
    sampler: Sampler
    warms: Sampler | None = None

    @property
    def roof(self) -> str:
        return self.kernel.partition(",")[0]

    def close(self) -> None:
        """Closes the samplers. Must not be called after a failure, because closing would wait for
        a stuck launch. After a failure the job's Bound frees what the samplers use.
        """
        for one in (self.sampler, self.warms):
            if one is not None:
                one.close()


@dataclass(frozen=True)
class Roofed:
    """A roof that a row may reach: the row's work in the roof's unit, and the kernels (probes) that
    measure the roof.
    """

    kind: str  # kind of the roof: "flops", "copy", "read" or REFERENCE
    work: float
    probes: list[Probe]


@dataclass
class Gauges:
    """Makes the probes of a device. `best` is the highest rate that any row reached,
    for each roof.
    """

    device: sp.Device
    manifest: Mapping[str, Any]
    settings: Settings
    best: Roof = field(default_factory=Roof)
    _verified: dict[str, bool] = field(default_factory=dict)

    def roofs_of(self, bound: Bound, lasts_ns: float, stack: ExitStack) -> list[Roofed]:
        """Returns the roofs of a row whose launch lasts `lasts_ns`. `stack` closes their probes."""
        job = bound.job
        batch = max(1, min(timing.MOST_BATCH, math.ceil(timing.SAMPLE_NS / max(lasts_ns, 1.0))))
        sample_ns = min(batch * lasts_ns, MOST_FMA_NS)
        found = []
        if job.flop_type and (flops := job.executed or bound.flops()):
            launch_ns = min(max(lasts_ns, LEAST_FMA_NS), MOST_FMA_NS)
            number = max(1, round(sample_ns / launch_ns))
            fmas = self._fmas(job.flop_type, launch_ns, number, stack)
            found.append(Roofed("flops", flops, fmas))
        if job.nbytes:
            kind = "read" if job.mostly_reads else "copy"
            nbytes = working_set(bound)
            rate = job.nbytes / max(lasts_ns, 1.0)
            streams = self.probes(kind, partial(self.stream, nbytes, rate, sample_ns, stack))
            found.append(Roofed(kind, job.nbytes, streams))
        found = [one for one in found if one.probes]
        if all(one.kind != "flops" for one in found):
            found += self._reference(sample_ns, stack)
        return found

    def _reference(self, sample_ns: float, stack: ExitStack) -> list[Roofed]:
        """Returns a loop of FMAs that takes part in the rounds of a row which may be near no roof.
        By this reference `compare` can tell a change of the row from a change of the machine.
        """
        for kind in ("f32", "f64"):
            if made := self._fmas(kind, max(sample_ns, LEAST_FMA_NS), 1, stack):
                return [Roofed(REFERENCE, 0.0, made)]
        return []

    def _fmas(self, kind: str, launch_ns: float, batch: int, stack: ExitStack) -> list[Probe]:
        """Returns loops of FMAs on all threads, and on the cpu also on one thread: on busy cores a
        row on one thread would exceed the roof of all threads.
        """
        fma = partial(self.fma, launch_ns, batch, stack)
        alone = self.device.info.backend == "cpu" and self.device.info.compute_units > 1
        return self.probes(kind, fma) + (
            self.probes(kind, partial(fma, threads=1)) if alone else []
        )

    def probes(self, kind: str, make: Callable[[str], Probe | None]) -> list[Probe]:
        """Returns the probes of a roof ("f32", "f64", "copy" or "read"). Leaves out kernels that
        the device lacks, has no memory for, or computes wrongly.
        """
        import sparkle_drv as sp

        made = []
        for kernel, kinds in roofs.KERNELS.items():
            if kind not in kinds or kernel not in self.manifest:
                continue
            try:
                if self._is_right(kernel) and (probe := make(kernel)):
                    made.append(probe)
            except sp.FenceTimeout:
                raise
            except (sp.SparkleError, MemoryError, OSError) as error:
                log.warning("no roof by %s: %s", kernel, error)
        return made

    def _is_right(self, kernel: str) -> bool:
        """Verifies the kernel at a small size, once, when it is first needed. Returns whether it is
        right.
        """
        if kernel not in self._verified:
            at = point(kernel, self.device.info)
            with self._bound(kernel, {**at, "n" if "n" in at else "iters": SMALL}) as bound:
                verdict = bound.check(0)
            if not verdict.ok:
                log.warning("no roof by %s: %s", kernel, verdict.sentence)
            self._verified[kernel] = verdict.ok
        return self._verified[kernel]

    def fma(
        self, launch_ns: float, batch: int, stack: ExitStack, kernel: str, threads: int = 0
    ) -> Probe:
        """Makes a probe that is a loop of FMAs; a launch takes about `launch_ns`. `threads` 0 means
        all threads.
        """
        from sparkle_drv import TilePlan

        def made(at: Point) -> Bound:
            job = self._job(kernel, at)
            if threads:
                job = replace(job, load=partial(plans.load, kernel, TilePlan(threads=threads)))
            return self._placed(job)

        at = point(kernel, self.device.info)
        # a device that is slow with SMALL rounds of FMAs skips the larger number, which would take
        # seconds
        for iters in (SMALL, int(at["iters"])):
            with made({**at, "iters": iters}) as bound:
                lasts = max(timing.estimate(bound), 1.0)
            if lasts > timing.SAMPLE_NS:
                break
        iters = max(1, int(iters * launch_ns / lasts))
        bound = stack.enter_context(made({**at, "iters": iters}))
        # launches the kernel, because bound.flops() reads a number that the kernel writes
        timing.estimate(bound)
        name = f"{kernel}, {threads} thread" if threads else kernel
        return Probe(name, bound.flops(), timing.several(bound, batch))

    def stream(
        self, nbytes: float, rate: float, sample_ns: float, stack: ExitStack, kernel: str
    ) -> Probe | None:
        """Makes a probe that is a stream over as many bytes as the row's operands have, or over
        fewer: a stream beyond the caches has the same rate at any length.

        Returns None if launching the stream takes longer than moving its bytes, or if the device
        takes no stream that leaves the caches as the row does. A sample lasts as long as the row's,
        or less long for a row whose `rate` (bytes per ns) is far below the roof.
        """
        info = self.device.info
        at = point(kernel, info)
        if self._job(kernel, at).footprint < min(nbytes, cache_reach.beyond_nbytes(info)):
            return None
        short = self._job(kernel, {**at, "n": 1})
        n = max(1, round(min(nbytes / short.footprint, int(at["n"]))))
        bound = stack.enter_context(self._bound(kernel, {**at, "n": n}))
        self._fill(bound)
        estimate_ns = max(timing.estimate(bound), 1.0)
        if rate < NEAR_ROOF * bound.job.nbytes / estimate_ns:
            sample_ns = min(sample_ns, timing.SAMPLE_NS)
        sampler = timing.several(bound, min(timing.MOST_BATCH, round(sample_ns / estimate_ns)))
        with self._placed(short) as empty:
            if _ratio(sampler, timing.several(empty, sampler.batch)) < LAUNCHES:
                return None
        in_cache = nbytes <= cache_reach.caches_nbytes(info)
        warms = timing.OneByOne(bound, "device") if in_cache else None
        return Probe(kernel, bound.job.nbytes, sampler, warms)

    def _job(self, kernel: str, at: Point) -> Job:
        return catalog.make(kernel, at, self.device.info, self.manifest, self.settings.seed)

    def _bound(self, kernel: str, at: Point) -> Bound:
        return self._placed(self._job(kernel, at))

    def _placed(self, job: Job) -> Bound:
        return Bound(job, self.device, self.settings.seed, 1, self.settings.launch_timeout_s)

    def _fill(self, bound: Bound) -> None:
        """Fills the operands with a short random pattern, repeated. Random numbers for all elements
        would take seconds.
        """
        rng = np.random.default_rng(self.settings.seed)
        for guarded in bound.placements[0].guarded.values():
            operand = guarded.operand
            values = fills.signed(rng, (1 << 14,), operand.dtype, 0)
            guarded.view.write(np.resize(values, operand.shape))

    def complete(self) -> None:
        """Measures the roofs for which no row has a rate, so that a drawing has all roofs."""
        for kind in ("f32", "f64", "copy", "read"):
            flops = kind.startswith("f")
            if kind in (self.best.gflops if flops else self.best.gbytes_per_s):
                continue
            with ExitStack() as stack:
                fma = partial(self.fma, timing.SAMPLE_NS, 1, stack)
                stream = partial(self.stream, math.inf, 0.0, timing.SAMPLE_NS, stack)
                for probe in self.probes(kind, fma if flops else stream):
                    times = [probe.sampler.sample()[0] for _ in range(stats.FEWEST_FOR_INTERVAL)]
                    probe.close()
                    self._raise(kind, probe.work / float(np.median(times)))

    def met(self, share: Share, bound: Bound) -> None:
        """Raises the rate in `best` to that of the row's roof, if this is higher. Ignores a stream
        that is not beyond the caches, because `best` holds the rate of memory.
        """
        if share.kind == "flops":
            self._raise(str(bound.job.flop_type), float(np.median(share.roof)))
        elif working_set(bound) >= cache_reach.beyond_nbytes(bound.device.info):
            self._raise(share.kind, float(np.median(share.roof)))

    def _raise(self, kind: str, rate: float) -> None:
        met = Roof({kind: rate}) if kind.startswith("f") else Roof({}, {kind: rate})
        self.best = self.best.raised_to(met)


def _ratio(one: Sampler, other: Sampler) -> float:
    """Returns the ratio of the shortest times per launch, by the device's clock."""
    rounds = [(one.sample()[0], other.sample()[0]) for _ in range(ROUNDS)]
    return min(lasts for lasts, _ in rounds) / max(min(lasts for _, lasts in rounds), 1.0)


def point(kernel: str, info: sp.DeviceInfo) -> Point:
    """Returns the size at which the peak command times a roof's kernel."""
    return catalog.expand(kernel, {}, info)[0]


def working_set(bound: Bound) -> int:
    """Returns the bytes of all sets of a job's operands."""
    return len(bound.placements) * bound.job.footprint


@contextmanager
def gauges(
    device: sp.Device, manifest: Mapping[str, Any], settings: Settings
) -> Iterator[Gauges | None]:
    """Yields the Gauges of a device, which make the probes of its roofs. Yields None for an
    emulated device, because its times mean nothing.
    """
    yield None if device.info.emulated else Gauges(device, manifest, settings)
