"""Probes: the roofs' kernels made for one row, and what the rows of a device met so far.

beside.py takes their samples. Nothing that was measured is kept from row to row but the highest
rates, for the drawing.
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

from _bench.jobs import catalog, fills, plans, roofs
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
SMALL = 1009  # elements, or rounds of FMAs: a prime, at which a kernel is verified
LEAST_FMA_NS, MOST_FMA_NS = 100e3, 20e6
"""A launch of FMAs: long enough that starting it costs nothing, short enough to repeat."""
NEAR_ROOF = 0.5  # a share from which the roof may be the row's
COUNTED, LAUNCHES = 64, 2
"""A stream that takes less than so many empty launches says nothing of memory; they are counted in
a batch.
"""
REFERENCE = "reference"  # in place of a roof


@dataclass
class Probe:
    """A kernel of roofs.py on the device; `work` is the flops or bytes of a launch. `kernel` also
    names the threads, where they are not all; `roof` does not.
    """

    kernel: str
    work: float
    sampler: Sampler
    warms: Sampler | None = None

    @property
    def roof(self) -> str:
        return self.kernel.partition(",")[0]

    def close(self) -> None:
        """Not after a failure: it would wait for what is stuck, and its Bound is closed anyway."""
        for one in (self.sampler, self.warms):
            if one is not None:
                one.close()


@dataclass(frozen=True)
class Roofed:
    """A roof that concerns a row: the row's work in the roof's unit, and who may set the roof."""

    kind: str  # "flops", "copy", "read" or REFERENCE
    work: float
    probes: list[Probe]


@dataclass
class Gauges:
    """Makes the probes of a device. `best` is the highest rate of each roof that a row met."""

    device: sp.Device
    manifest: Mapping[str, Any]
    settings: Settings
    best: Roof = field(default_factory=Roof)
    _verified: dict[str, bool] = field(default_factory=dict)

    def roofs_of(self, bound: Bound, lasts_ns: float, stack: ExitStack) -> list[Roofed]:
        """The roofs that concern a row whose launch takes so long; `stack` closes the probes."""
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
        """For a row that may be near no roof: what `compare` tells the machine from the row by."""
        for kind in ("f32", "f64"):
            if made := self._fmas(kind, max(sample_ns, LEAST_FMA_NS), 1, stack):
                return [Roofed(REFERENCE, 0.0, made)]
        return []

    def _fmas(self, kind: str, launch_ns: float, batch: int, stack: ExitStack) -> list[Probe]:
        """By all threads, and on the cpu by one, too: on busy cores a row of one thread would
        exceed a roof of all.
        """
        fma = partial(self.fma, launch_ns, batch, stack)
        alone = self.device.info.backend == "cpu" and self.device.info.compute_units > 1
        return self.probes(kind, fma) + (
            self.probes(kind, partial(fma, threads=1)) if alone else []
        )

    def probes(self, kind: str, make: Callable[[str], Probe | None]) -> list[Probe]:
        """The probes of a roof ("f32", "f64", "copy" or "read"). Kernels that the device lacks, has
        no memory for or computes wrongly are left out.
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
        """Verified at a small size when it is first needed."""
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
        """A loop of FMAs, a launch of which takes about `launch_ns`; 0 threads: all."""
        from sparkle_drv import TilePlan

        def made(at: Point) -> Bound:
            job = self._job(kernel, at)
            if threads:
                job = replace(job, load=partial(plans.load, kernel, TilePlan(threads=threads)))
            return self._placed(job)

        at = point(kernel, self.device.info)
        for iters in (SMALL, int(at["iters"])):  # on a slow device the second would take seconds
            with made({**at, "iters": iters}) as bound:
                lasts = max(timing.estimate(bound), 1.0)
            if lasts > timing.SAMPLE_NS:
                break
        iters = max(1, int(iters * launch_ns / lasts))
        bound = stack.enter_context(made({**at, "iters": iters}))
        timing.estimate(bound)  # after a launch it has told its flops
        name = f"{kernel}, {threads} thread" if threads else kernel
        return Probe(name, bound.flops(), timing.several(bound, batch))

    def stream(
        self, nbytes: int, rate: float, sample_ns: float, stack: ExitStack, kernel: str
    ) -> Probe | None:
        """A stream over as many bytes; beyond the caches a longer one would say the same. None
        where launching it takes longer than moving them. A sample lasts as long as the row's; less
        beside a row whose `rate`, in bytes a ns, is nowhere near.
        """
        largest = largest_cache(self.device.info)
        at = point(kernel, self.device.info)
        with self._bound(kernel, {**at, "n": 1}) as bound:
            launch_ns = _shortest(timing.several(bound, COUNTED))
            each = bound.job.footprint
        n = max(1, round(min(nbytes, catalog.AUTO_BEYOND_CACHES * largest) / each))
        bound = stack.enter_context(self._bound(kernel, {**at, "n": n}))
        self._fill(bound)
        estimate_ns = max(timing.estimate(bound), 1.0)
        if rate < NEAR_ROOF * bound.job.nbytes / estimate_ns:
            sample_ns = min(sample_ns, timing.SAMPLE_NS)
        sampler = timing.several(bound, min(timing.MOST_BATCH, round(sample_ns / estimate_ns)))
        if _shortest(sampler) < LAUNCHES * launch_ns:
            return None
        warms = timing.OneByOne(bound, "device") if nbytes <= largest else None
        return Probe(kernel, bound.job.nbytes, sampler, warms)

    def _job(self, kernel: str, at: Point) -> Job:
        return catalog.make(kernel, at, self.device.info, self.manifest, self.settings.seed)

    def _bound(self, kernel: str, at: Point) -> Bound:
        return self._placed(self._job(kernel, at))

    def _placed(self, job: Job) -> Bound:
        return Bound(job, self.device, self.settings.seed, 1, self.settings.launch_timeout_s)

    def _fill(self, bound: Bound) -> None:
        """A short random pattern again and again: random numbers for all would take seconds."""
        rng = np.random.default_rng(self.settings.seed)
        for guarded in bound.placements[0].guarded.values():
            operand = guarded.operand
            values = fills.signed(rng, (1 << 14,), operand.dtype, 0)
            guarded.view.write(np.resize(values, operand.shape))

    def complete(self) -> None:
        """Measures those roofs, for a drawing of all, that no row has met."""
        beyond = catalog.AUTO_BEYOND_CACHES * largest_cache(self.device.info)
        for kind in ("f32", "f64", "copy", "read"):
            flops = kind.startswith("f")
            if kind in (self.best.gflops if flops else self.best.gbytes_per_s):
                continue
            with ExitStack() as stack:
                fma = partial(self.fma, timing.SAMPLE_NS, 1, stack)
                stream = partial(self.stream, beyond, 0.0, timing.SAMPLE_NS, stack)
                for probe in self.probes(kind, fma if flops else stream):
                    times = [probe.sampler.sample()[0] for _ in range(stats.FEWEST_FOR_INTERVAL)]
                    probe.close()
                    self._raise(kind, probe.work / float(np.median(times)))

    def met(self, share: Share, bound: Bound) -> None:
        """Raises `best` to what a row met; a cache is no roof of the drawing."""
        if share.kind == "flops":
            self._raise(str(bound.job.flop_type), float(np.median(share.roof)))
        elif working_set(bound) > largest_cache(bound.device.info):
            self._raise(share.kind, float(np.median(share.roof)))

    def _raise(self, kind: str, rate: float) -> None:
        met = Roof({kind: rate}) if kind.startswith("f") else Roof({}, {kind: rate})
        self.best = self.best.raised_to(met)


def _shortest(sampler: Sampler) -> float:
    """ns of the device for a launch."""
    return min(sampler.sample()[0] for _ in range(3))


def point(kernel: str, info: sp.DeviceInfo) -> Point:
    """The size at which the peak command times a roof's kernel."""
    return catalog.expand(kernel, {}, info)[0]


def largest_cache(info: sp.DeviceInfo) -> int:
    """Bytes."""
    return max((cache.nbytes for cache in info.caches), default=timing.ASSUMED_CACHE_NBYTES)


def working_set(bound: Bound) -> int:
    """Bytes of all sets of a job's operands."""
    return len(bound.placements) * bound.job.footprint


@contextmanager
def gauges(
    device: sp.Device, manifest: Mapping[str, Any], settings: Settings
) -> Iterator[Gauges | None]:
    """The gauges of a device; None where times mean nothing."""
    yield None if device.info.emulated else Gauges(device, manifest, settings)
