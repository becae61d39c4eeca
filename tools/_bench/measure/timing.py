"""Takes samples: defines a sample of each mode, and loops until the stop rule has enough.

    hot       the same buffers again and again; short kernels in batches of one submission
    cold      buffers rotate through a set larger than twice the caches
    latency   one launch at a time with a wait; the row's time is that of the host's clock

Mode pipeline is in pipeline_mode.py.

Times are ns per launch, by the device's clock and by the host's. Nothing is verified here. Called
by engine.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from _bench.jobs import cache_reach
from _bench.rows.results import Measured

from .bound import Bound, device_ns
from .stop_rule import StopRule

if TYPE_CHECKING:
    import sparkle_drv as sp

SAMPLE_NS = 200_000  # least ns of a sample: two clock readings of 50 ns are then 0.05 % of it
MOST_BATCH = 4096
WARM_UP_S, WARM_UP_SHARE = 0.2, 0.04
"""Largest seconds of a warm-up, and its largest share of a row's time. A host of virtual
machines may wake two idle cores as two threads of one of its own cores, and needs a tenth of a
second to separate them. In 9 of 60 tries on Zen 4, two processes on their own cores began at
half their speed."""
MOST_COLD_SHARE = 4  # all sets of operands together use at most a quarter of the device's memory
MOST_COLD_SETS = (
    # Largest number of sets of operands. For tiny operands, allocating thousands of sets would take
    # longer than the timing itself.
    512
)
PIPELINE_DEPTH = 3

Sample = tuple[float, float]


class Sampler(Protocol):
    """Takes a sample: (device ns, host ns) per launch, with NaN for a clock that does not exist."""

    batch: int
    primary: str

    def sample(self) -> Sample: ...

    def close(self) -> None: ...


def cold_sets(footprint: int, info: sp.DeviceInfo, sharers: int = 1) -> int:
    """Returns how many copies of the operands the launches use in turn. Together the copies exceed
    the caches (cache_reach.py), as far as memory allows. `sharers` jobs share the device's memory.
    """
    footprint = max(footprint, 1)
    wanted = max(2, math.ceil(cache_reach.beyond_nbytes(info) / footprint) + 1)
    room = (info.memory_nbytes or 1 << 32) // MOST_COLD_SHARE // sharers // footprint
    return max(2, min(wanted, room, MOST_COLD_SETS))


@dataclass
class OneByOne:
    """A sampler that launches once and waits: for mode latency, and for kernels that last as long
    as a sample.
    """

    bound: Bound
    primary: str
    batch: int = 1
    _next: int = 0
    _goes: list[Callable[[], int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        queue, kernel = self.bound.queue, self.bound.kernel
        self.primary = self.primary if queue.timing else "host"
        self._goes = [
            queue.prepare(kernel, *p.arguments, **self.bound.launch_options)
            for p in self.bound.placements
        ]

    def sample(self) -> Sample:
        go, queue = self._goes[self._next], self.bound.queue
        self._next = (self._next + 1) % len(self._goes)
        start = time.perf_counter_ns()
        fence = queue.fence(go())
        fence.wait(timeout_s=self.bound.launch_timeout_s)
        host = time.perf_counter_ns() - start
        return device_ns(fence, host), float(host)

    def close(self) -> None:
        self._goes.clear()


@dataclass
class Batched:
    """A sampler with `batch` dispatches in one submission. Both times are divided by `batch`."""

    bound: Bound
    batch: int
    primary: str = "device"
    _next: int = 0
    _lists: list[sp.Commands] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Records the lists of `batch` dispatches each. The dispatches use the sets of operands in
        turn. If there are more sets than `batch`, the next list goes on with the next set.
        """
        import sparkle_drv as sp

        self.primary = self.primary if self.bound.queue.timing else "host"
        places = self.bound.placements
        nlists = math.ceil(len(places) / self.batch)
        at = 0
        for _ in range(nlists):
            commands = sp.Commands()
            for _ in range(self.batch):
                commands.dispatch(
                    self.bound.kernel, *places[at].arguments, **self.bound.launch_options
                )
                at = (at + 1) % len(places)
            self._lists.append(commands)

    def sample(self) -> Sample:
        commands = self._lists[self._next]
        self._next = (self._next + 1) % len(self._lists)
        start = time.perf_counter_ns()
        fence = self.bound.queue.submit(commands)
        fence.wait(timeout_s=self.bound.launch_timeout_s)
        host = time.perf_counter_ns() - start
        return device_ns(fence, host) / self.batch, host / self.batch

    def close(self) -> None:
        self._lists.clear()


def steady(bound: Bound, mode: str, estimate_ns: float | None = None) -> Sampler:
    """Returns the sampler of mode hot, cold or latency. `estimate_ns`, the duration of a launch,
    sets the batch size; None: it is estimated here.
    """
    single = OneByOne(bound, "host" if mode == "latency" else "device")
    if mode == "latency":
        return single
    lasts = estimate(bound) if estimate_ns is None else estimate_ns
    single.close()
    return several(bound, min(MOST_BATCH, math.ceil(SAMPLE_NS / max(lasts, 1.0))))


def several(bound: Bound, batch: int) -> Sampler:
    """Returns a sampler of batches of `batch` launches, by the device's clock."""
    return Batched(bound, batch) if batch > 1 else OneByOne(bound, "device")


def estimate(bound: Bound) -> float:
    """Returns about how long a launch lasts, in ns by the device's clock. This is the shortest time
    of a few launches.
    """
    single = OneByOne(bound, "device")
    lasts = min(single.sample()[0] for _ in range(max(3, len(bound.placements))))
    single.close()
    return lasts


def warm_up_s(rule: StopRule) -> float:
    """Returns the seconds that a warm-up lasts."""
    return min(WARM_UP_S, WARM_UP_SHARE * rule.timeout_s)


def warm_up(sampler: Sampler, rule: StopRule, clock: Callable[[], float] = time.monotonic) -> None:
    """Takes samples and drops them, at least two."""
    start = clock()
    for done in range(1 << 20):
        if done >= 2 and clock() - start >= warm_up_s(rule):
            break
        sampler.sample()


def take(
    sampler: Sampler,
    rule: StopRule,
    clock: Callable[[], float] = time.monotonic,
    warm: bool = True,
) -> Measured:
    """Warms up, then takes samples until the rule gives a reason to stop."""
    if warm:
        warm_up(sampler, rule, clock)
    device: list[float] = []
    host: list[float] = []
    primary = device if sampler.primary == "device" else host
    start, stop = clock(), None
    while stop is None:
        device_ns, host_ns = sampler.sample()
        device.append(device_ns)
        host.append(host_ns)
        stop = rule.ask(primary, clock() - start)
    return Measured(device, host, sampler.primary, sampler.batch, stop)
