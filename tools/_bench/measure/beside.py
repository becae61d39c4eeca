"""The roofs beside a row: the kernels that say what the device can do now, timed in turns with the
row's own kernel right after its samples.

A share of a roof that was measured at another time says as much about the host as about the kernel:
on shared cores it reached 240 %. Here both sides of a ratio pass through the same moments. Their
samples alternate in a turn, so that a scheduler's time slices meet all of them alike. (In blocks of
20 ms the second block of a kernel ran at half of its rate on busy cores.) Called by engine.py and
versus.py; roofs.py names the kernels.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from _bench.jobs import catalog, fills, roofs
from _bench.jobs.axes import Point
from _bench.jobs.roofs import Roof
from _bench.rows import stats
from _bench.rows.results import Share

from . import timing
from .bound import Bound
from .stop_rule import StopRule
from .timing import Sampler

if TYPE_CHECKING:
    import sparkle_drv as sp

    from .engine import Settings

log = logging.getLogger("sparkle_drv.bench")
TURN_S = 0.02  # for each kernel. Linux gives a busy core's threads slices of 3 ms to 4 ms: five
LONGEST_S = 1.0  # of the turns of a row: ten of 4 kernels on an idle machine
MOST_TIMEOUTS = 2  # on a machine so busy that an interval's least turns take longer: of the row's
SMALL = 1009  # elements, or rounds of FMAs: a prime, at which a kernel is verified


@dataclass
class Gauge:
    """A kernel of roofs.py on the device; `work` is the flops or bytes of a launch."""

    kernel: str
    bound: Bound
    work: float
    lasts_ns: float

    def sampler(self, sample_ns: float) -> Sampler:
        """Samples as long as the row's: a thread that has just woken is not preempted for a while,
        so that on busy cores short samples run faster than long ones.
        """
        batch = min(timing.MOST_BATCH, round(sample_ns / self.lasts_ns))
        if batch <= 1:
            return timing.OneByOne(self.bound, "device")
        return timing.Batched(self.bound, batch)


@dataclass
class Gauges:
    """Those of a device, each made when a row first needs it and kept for the next rows. `best` is
    the highest rate of each roof that a row of this run met.
    """

    device: sp.Device
    manifest: Mapping[str, Any]
    settings: Settings
    best: Roof = field(default_factory=Roof)
    _made: dict[str, Gauge | None] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.stack.callback(self._made.clear)

    def of(self, kind: str) -> list[Gauge]:
        """The kernels of a roof: "f32", "f64", "copy" or "read". Those that the device lacks, has
        no memory for or computes wrongly are left out.
        """
        import sparkle_drv as sp

        for kernel, kinds in roofs.KERNELS.items():
            if kind in kinds and kernel in self.manifest and kernel not in self._made:
                self._made[kernel] = None
                try:
                    self._made[kernel] = self._gauge(kernel)
                except sp.FenceTimeout:
                    raise
                except (sp.SparkleError, MemoryError, OSError) as error:
                    log.warning("no roof by %s: %s", kernel, error)
        made = ((kernel, self._made.get(kernel)) for kernel in roofs.KERNELS)
        return [one for kernel, one in made if one and kind in roofs.KERNELS[kernel]]

    def _gauge(self, kernel: str) -> Gauge | None:
        """Verified at a small size, then loaded for good at the size at which it is timed. A stream
        is that of the peak command; FMAs are as many as a sample lasts.
        """
        at = point(kernel, self.device.info)
        size = "n" if "n" in at else "iters"
        with self._bound(kernel, {**at, size: SMALL}) as bound:
            verdict = bound.check(0)
            if not verdict.ok:
                log.warning("no roof by %s: %s", kernel, verdict.sentence)
                return None
        if size == "iters":
            with self._bound(kernel, at) as bound:
                scale = timing.SAMPLE_NS / max(timing.estimate(bound), 1.0)
            at = {**at, size: max(SMALL, int(int(at[size]) * scale))}
        bound = self.stack.enter_context(self._bound(kernel, at))
        self._fill(bound)
        lasts_ns = timing.estimate(bound)  # launches it, too, after which it has told its flops
        work = bound.flops() if bound.job.flops_output else bound.job.nbytes
        return Gauge(kernel, bound, work, max(lasts_ns, 1.0))

    def _bound(self, kernel: str, at: Point) -> Bound:
        info, seed = self.device.info, self.settings.seed
        job = catalog.make(kernel, at, info, self.manifest, seed)
        return Bound(job, self.device, seed, 1, self.settings.launch_timeout_s)

    def _fill(self, bound: Bound) -> None:
        """A short random pattern again and again: random numbers for all would take seconds."""
        rng = np.random.default_rng(self.settings.seed)
        for guarded in bound.placements[0].guarded.values():
            operand = guarded.operand
            values = fills.signed(rng, (1 << 14,), operand.dtype, 0)
            guarded.view.write(np.resize(values, operand.shape))

    def complete(self) -> None:
        """Measures those roofs, for a drawing of all, that no row has met."""
        for kind in ("f32", "f64", "copy", "read"):
            known = self.best.gflops if kind.startswith("f") else self.best.gbytes_per_s
            for gauge in self.of(kind) if kind not in known else ():
                sampler = gauge.sampler(timing.SAMPLE_NS)
                times = [sampler.sample()[0] for _ in range(stats.FEWEST_FOR_INTERVAL)]
                sampler.close()
                self._raise(kind, gauge.work / float(np.median(times)))

    def met(self, share: Share, flop_type: str | None) -> None:
        """Raises `best` to what a row met."""
        kind = str(flop_type) if share.kind == "flops" else share.kind
        self._raise(kind, float(np.median(share.roof)))

    def _raise(self, kind: str, rate: float) -> None:
        met = Roof({kind: rate}) if kind.startswith("f") else Roof({}, {kind: rate})
        self.best = self.best.raised_to(met)


def point(kernel: str, info: sp.DeviceInfo) -> Point:
    """The size at which a gauge is timed: that of the peak command."""
    return catalog.expand(kernel, {}, info)[0]


@contextmanager
def gauges(
    device: sp.Device, manifest: Mapping[str, Any], settings: Settings
) -> Iterator[Gauges | None]:
    """The gauges of a device while it is open; None where times mean nothing."""
    if device.info.emulated:
        yield None
        return
    made = Gauges(device, manifest, settings)
    with made.stack:  # it hands a failure to each Bound, which then waits for nothing that is stuck
        yield made


def shares(bound: Bound, sampler: Sampler, sample_ns: float, known: Gauges) -> list[Share]:
    """The row's share of each roof that concerns it, the largest first. `sampler` is the row's, and
    one of its samples lasts `sample_ns`. The roof of memory concerns no row whose operands all fit
    in a cache.
    """
    job = bound.job
    kinds = [(job.flop_type or "", "flops", job.executed or bound.flops())]
    if not in_cache(bound):
        stream = "read" if job.mostly_reads else "copy"
        kinds.append((stream, stream, job.nbytes))
    wanted = [(n, work, found) for kind, n, work in kinds if work and (found := known.of(kind))]
    every = {gauge.kernel: gauge for *_, found in wanted for gauge in found}
    if not every:
        return []
    rule = replace(known.settings.rule, least=stats.FEWEST_FOR_INTERVAL)
    others = {name: gauge.sampler(sample_ns) for name, gauge in every.items()}
    row, times = turns(sampler, others, rule)
    for other in others.values():
        other.close()
    made = []
    for name, work, found in wanted:
        rates = {g.kernel: [g.work / ns for ns in times[g.kernel]] for g in found}
        best = max(rates, key=lambda kernel: float(np.median(rates[kernel])))
        made.append(Share(name, best, [work / ns for ns in row], rates[best]))
    for share in made:
        known.met(share, job.flop_type)
    return sorted(made, key=lambda share: -share.ratio.median)


def in_cache(bound: Bound) -> bool:
    """Do all sets of its operands together fit in the largest cache?"""
    largest = max((cache.nbytes for cache in bound.device.info.caches), default=0)
    return len(bound.placements) * bound.job.footprint <= largest


def turns(
    sampler: Sampler,
    others: Mapping[str, Sampler],
    rule: StopRule,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[list[float], dict[str, list[float]]]:
    """Times of a launch in ns, of the row and of each other kernel, turn by turn, until the ratios
    are as precise as `rule` wants or its time is over.
    """
    row: list[float] = []
    times: dict[str, list[float]] = {name: [] for name in others}
    everybody = [(sampler, row), *((others[name], times[name]) for name in others)]
    limit_s, start = min(rule.timeout_s, LONGEST_S), clock()
    while True:
        _turn(everybody, clock)
        spent = clock() - start
        ratios = [[b / a for a, b in zip(row, other, strict=True)] for other in times.values()]
        widest = max(stats.summarize(r).half_width for r in ratios)
        enough = widest <= rule.precision or spent >= limit_s
        if spent >= MOST_TIMEOUTS * rule.timeout_s or (len(row) >= rule.least and enough):
            return row, times


def _turn(everybody: list[tuple[Sampler, list[float]]], clock: Callable[[], float]) -> None:
    """Appends each kernel's mean time of a launch over samples that alternate with the others'. The
    kernel that begins changes, so that none always follows the same one.
    """
    samples: list[list[float]] = [[] for _ in everybody]
    limit, start, first = TURN_S * len(everybody), clock(), 0
    while not samples[0] or clock() - start < limit:
        for at in range(len(everybody)):
            which = (first + at) % len(everybody)
            sampler = everybody[which][0]
            if which == 0 and sampler.batch == 1:
                sampler.sample()  # does not count: the others drove its operands out of the caches
            samples[which].append(sampler.sample()[0 if sampler.primary == "device" else 1])
        first += 1
    for (_, taken), times in zip(everybody, samples, strict=True):
        taken.append(sum(times) / len(times))
