"""Measures roofs together with a row. Each round takes one sample of the row's kernel and one of
each probe, in random order. The same samples give the row's time and its share of the roof.

A probe is a kernel of roofs.py, sized for the row. One probe is a stream over as many bytes as the
row's operands have, so that both run from the same cache or from memory. The other is a loop of
FMAs whose launch lasts as long as the row's. On busy cores the scheduler's time slices then
interrupt row and loop alike. With launches of unequal lengths, the measured shares of one kernel on
busy cores were 47 % to 200 %. Nothing is kept from row to row. Called by engine.py; probes.py makes
the probes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np

from _bench.jobs import cache_reach
from _bench.rows import stats
from _bench.rows.results import Measured, Share

from . import timing
from .bound import Bound
from .probes import NEAR_ROOF, REFERENCE, Gauges, Roofed, working_set
from .stop_rule import StopRule
from .timing import Sampler

PILOT_ROUNDS, FEWEST_PILOT_ROUNDS, PILOT_S = 6, 2, 0.3
# limit, in seconds, of the extra rounds that only make the row's share of the roof more precise
RATIO_S = 1.0


@dataclass
class TimedKernel:
    """A kernel that takes part in the rounds. `warms`, if given, launches the kernel once before
    each sample, untimed: the other kernels evicted its operands from the caches.
    """

    sampler: Sampler
    warms: Sampler | None = None
    device_ns: list[float] = field(default_factory=list)
    host_ns: list[float] = field(default_factory=list)

    @property
    def times(self) -> list[float]:
        return self.device_ns if self.sampler.primary == "device" else self.host_ns

    def sample(self) -> None:
        if self.warms is not None:
            self.warms.sample()
        device, host = self.sampler.sample()
        self.device_ns.append(device)
        self.host_ns.append(host)

    def forget(self) -> None:
        self.device_ns.clear()
        self.host_ns.clear()


def take(
    bound: Bound, sampler: Sampler, rule: StopRule, gauges: Gauges | None
) -> tuple[Measured, Share | None]:
    """Returns the row's samples, and its share of the roof that it comes closest to."""
    timing.warm_up(sampler, rule)
    with ExitStack() as stack:
        roofed = [] if gauges is None else gauges.roofs_of(bound, _lasts(sampler), stack)
        if gauges is None or not roofed:
            return timing.take(sampler, rule, warm=False), None
        known = {probe.kernel: probe for one in roofed for probe in one.probes}
        kernels = {name: TimedKernel(p.sampler, p.warms) for name, p in known.items()}
        in_cache = working_set(bound) <= cache_reach.caches_nbytes(bound.device.info)
        row = TimedKernel(sampler, timing.OneByOne(bound, "device") if in_cache else None)
        rng = np.random.default_rng(rule.least)
        kept = _pilot(row, kernels, roofed, rng)
        kernels = {p.kernel: kernels[p.kernel] for one in kept for p in one.probes}
        stop = rounds(row, kernels, rule, rng)
        rates = {name: [known[name].work / ns for ns in r.times] for name, r in kernels.items()}
        measured = Measured(
            row.device_ns, row.host_ns, sampler.primary, sampler.batch, stop, probes=rates
        )
        shares = [_share(one, row.times, rates) for one in kept if one.kind != REFERENCE]
        if row.warms is not None:
            row.warms.close()
        for probe in known.values():
            probe.close()
        for share in shares:
            gauges.met(share, bound)
        return measured, max(shares, key=lambda share: share.ratio.median, default=None)


def share_of(bound: Bound, sampler: Sampler, rule: StopRule, gauges: Gauges | None) -> Share | None:
    """Measures the share of the roof for a row that was already timed another way: in a pipeline,
    or in turns with rivals.
    """
    brief = replace(rule, least=stats.FEWEST_FOR_INTERVAL, timeout_s=min(rule.timeout_s, RATIO_S))
    return take(bound, sampler, brief, gauges)[1] if gauges is not None else None


def _lasts(sampler: Sampler) -> float:
    """Returns the ns per launch by the device's clock: the shortest of a few launches."""
    return min(sampler.sample()[0] for _ in range(3))


def _share(roofed: Roofed, row: list[float], rates: Mapping[str, list[float]]) -> Share:
    """Returns the row's share of one roof: that of the kernel whose rates have the highest median.
    A kernel on one thread and the same kernel on all threads count as one.
    """
    variants: dict[str, list[list[float]]] = {}
    for probe in roofed.probes:
        variants.setdefault(probe.roof, []).append(rates[probe.kernel])
    met = {roof: _better(np.array(own)) for roof, own in variants.items()}
    best = max(met, key=lambda roof: float(np.median(met[roof])))
    return Share(roofed.kind, best, [roofed.work / ns for ns in row], met[best])


def _better(rates: stats.Floats) -> list[float]:
    """Returns the rates of a roof's kernel on one thread or on all threads, whichever is faster.

    The two rows of `rates` are the rates on one thread and on all threads, one for each round. The
    rounds are cut into at most stats.BLOCKS blocks. In each block, the rates of the row with the
    higher median are returned. On busy cores one thread is faster in some blocks, and all threads
    in others. Taking the higher rate of every single round would overstate the roof: in six runs
    beside two busy loops, gemm_f64 then reached 63 % of the roof instead of 70 %.
    """
    stretches = max(1, min(stats.BLOCKS, rates.shape[1] // 2))
    parts = np.array_split(rates, stretches, axis=1)
    return [float(rate) for p in parts for rate in p[int(np.argmax(np.median(p, axis=1)))]]


def _pilot(
    row: TimedKernel,
    kernels: Mapping[str, TimedKernel],
    roofed: list[Roofed],
    rng: np.random.Generator,
) -> list[Roofed]:
    """Returns the roofs that the row may come closest to, judged by the shortest times of a few
    rounds.

    The samples of these rounds are dropped. If the row is near no roof, also returns the reference,
    a loop of FMAs. Such a row may hardly move data. What slows down a memory stream may then leave
    the row as it is, so a stream would be a wrong reference.
    """
    start = time.monotonic()
    for done in range(PILOT_ROUNDS):
        if done >= FEWEST_PILOT_ROUNDS and time.monotonic() - start >= PILOT_S:
            break
        _round(row, kernels, rng)
    shares = [
        one.work / min(row.times) * min(min(kernels[p.kernel].times) / p.work for p in one.probes)
        for one in roofed
    ]
    for kernel in (row, *kernels.values()):
        kernel.forget()
    top = max(shares)
    return [
        one
        for one, share in zip(roofed, shares, strict=True)
        if (top < NEAR_ROOF if one.kind == REFERENCE else share >= NEAR_ROOF * top)
    ]


def rounds(
    row: TimedKernel,
    kernels: Mapping[str, TimedKernel],
    rule: StopRule,
    rng: np.random.Generator,
    clock: Callable[[], float] = time.monotonic,
) -> str:
    """Runs rounds until the stop rule has enough samples of the row. Returns why the rounds ended.

    Then it runs more rounds, for at most RATIO_S, until the ratios of the row's rate to each
    probe's rate have the rule's precision, too.
    """
    start, stop = clock(), None
    precise_s = 0.0  # seconds from the start until `rule` had enough samples of the row
    while True:
        _round(row, kernels, rng)
        spent = clock() - start
        if stop is None:
            stop = rule.ask(row.times, spent)
            precise_s = spent
        if stop is None:
            continue
        if stop != "precision" or spent - precise_s >= RATIO_S or spent >= rule.timeout_s:
            return stop
        if _due(len(row.times)) and all(_precise(row, r, rule) for r in kernels.values()):
            return stop


def _due(n: int) -> bool:
    """Returns whether to test the precision after `n` samples. Tests after every round would stop
    at an interval that is narrow by chance.
    """
    return n % max(1, n // 10) == 0


def _precise(row: TimedKernel, other: TimedKernel, rule: StopRule) -> bool:
    return stats.paired(row.times, other.times).half_width <= rule.precision


def _round(row: TimedKernel, kernels: Mapping[str, TimedKernel], rng: np.random.Generator) -> None:
    everybody = [row, *kernels.values()]
    for at in rng.permutation(len(everybody)):
        everybody[at].sample()
