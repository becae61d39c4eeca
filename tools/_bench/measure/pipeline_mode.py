"""Mode pipeline: submits the same launches one by one with a wait after each, in one list of
commands, and through a ring of slots.

These three ways to submit take turns within one run, on the same operands and queue. Each sample is
`batch` launches from an idle queue to an idle queue, so that no work in flight is left out. The
device's clock is read only after the launches have ended.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from _bench.rows.overhead import SYNC, WAYS, Overhead, Way
from _bench.rows.results import Measured

from .bound import Bound, Placement, device_ns
from .stop_rule import StopRule
from .timing import PIPELINE_DEPTH, SAMPLE_NS, Sample, warm_up_s

if TYPE_CHECKING:
    import sparkle_drv as sp

LONG_NS = 100_000_000
MOST_BATCH = 1023  # largest batch; a queue keeps the times of only a few thousand submissions


class Slot:
    """One slot of the ring: a set of operands, and the commands that run the job on it."""

    def __init__(self, bound: Bound, placement: Placement) -> None:
        import sparkle_drv as sp

        self.commands = sp.Commands().dispatch(
            bound.kernel, *placement.arguments, **bound.launch_options
        )


class ThreeWays:
    """Takes samples of a job submitted in three ways: each launch alone, in one list, through a
    ring of slots. A sample is (device ns, host ns) per launch.
    """

    def __init__(self, bound: Bound) -> None:
        placements = iter(bound.placements)
        self._bound, self._timeout_s = bound, bound.launch_timeout_s
        self.pipe: sp.Pipeline = bound.device.pipeline(
            PIPELINE_DEPTH, lambda: Slot(bound, next(placements)), bound.queue
        )
        self.batch = PIPELINE_DEPTH
        estimate = min(self._sync()[1] for _ in range(3))
        self.batch = batch_for(estimate)
        self._list = self._recorded()

    def _recorded(self) -> sp.Commands:
        """Returns one list with all launches of a sample. The launches use the sets of operands in
        turn, as the pipeline does.
        """
        import sparkle_drv as sp

        bound, commands = self._bound, sp.Commands()
        for at in range(self.batch):
            placement = bound.placements[at % PIPELINE_DEPTH]
            commands.dispatch(bound.kernel, *placement.arguments, **bound.launch_options)
        return commands

    def sample(self, way: str) -> Sample:
        sampled: Sample = getattr(self, f"_{way}")()
        return sampled

    def _sync(self) -> Sample:
        lists = [slot.commands for slot in self.pipe.slots] * (self.batch // PIPELINE_DEPTH)
        submit, fences = self._bound.queue.submit, []
        start = time.perf_counter_ns()
        for commands in lists:
            fences.append(submit(commands).wait(self._timeout_s))
        return self._ended(start, fences)

    def _batched(self) -> Sample:
        start = time.perf_counter_ns()
        fence = self._bound.queue.submit(self._list).wait(self._timeout_s * self.batch)
        return self._ended(start, [fence])

    def _pipelined(self) -> Sample:
        pipe, fences = self.pipe, []
        start = time.perf_counter_ns()
        for _ in range(self.batch):
            slot = pipe.acquire(self._timeout_s)
            fences.append(pipe.submit(slot, slot.commands))
        pipe.drain(self._timeout_s * PIPELINE_DEPTH)
        return self._ended(start, fences)

    def _ended(self, start: int, fences: list[sp.Fence]) -> Sample:
        host = (time.perf_counter_ns() - start) / self.batch
        each = host * self.batch / len(fences)
        return sum(device_ns(fence, each) for fence in fences) / self.batch, host

    def close(self) -> None:
        self.pipe.close(self._timeout_s)


class Pipelined:
    """A `timing.Sampler` that samples only launches through the ring of slots, not the other ways
    to submit.
    """

    primary = "host"

    def __init__(self, ways: ThreeWays) -> None:
        self._ways, self.batch = ways, ways.batch

    def sample(self) -> Sample:
        return self._ways.sample("pipelined")

    def close(self) -> None:
        self._ways.close()


def batch_for(launch_ns: float) -> int:
    """Returns the number of launches per sample. They take at least 1 ms and at least four rounds
    of the ring, so that filling and emptying the ring hardly count.

    If four rounds would take more than 0.1 s, two rounds are enough. Every set of operands is used
    equally often.
    """
    launch_ns = max(launch_ns, 1.0)
    least = 4 if 4 * PIPELINE_DEPTH * launch_ns <= LONG_NS else 2
    rounds = max(least, math.ceil(5 * SAMPLE_NS / launch_ns / PIPELINE_DEPTH))
    return min(rounds, MOST_BATCH // PIPELINE_DEPTH) * PIPELINE_DEPTH


def take(
    ways: ThreeWays, rule: Callable[[], StopRule], clock: Callable[[], float] = time.monotonic
) -> tuple[Measured, Overhead]:
    """Takes samples of the three WAYS to submit (alone, in one list, pipelined) in turns, in an
    order that rotates with each round. Stops when each has enough times by the host's clock. The
    row's own samples are those of the pipeline.
    """
    rules = {way: rule() for way in WAYS}
    start, rounds = clock(), 0
    while rounds < 1 or clock() - start < warm_up_s(rules[SYNC]):
        for way in WAYS:
            ways.sample(way)
        rounds += 1
    taken: dict[str, tuple[list[float], list[float]]] = {way: ([], []) for way in WAYS}
    stops: dict[str, str] = {}
    start, rounds = clock(), 0
    while len(stops) < len(WAYS):
        first = rounds % len(WAYS)
        for way in WAYS[first:] + WAYS[:first]:
            for sample, kept in zip(ways.sample(way), taken[way], strict=True):
                kept.append(sample)
        rounds += 1
        for way in WAYS:
            stop = rules[way].ask(taken[way][1], clock() - start)
            if stop is not None and way not in stops:
                stops[way] = stop
    device, host = taken["pipelined"]
    stop = next((s for s in stops.values() if s != "precision"), "precision")
    compared = Overhead({way: Way(host=h, device=d) for way, (d, h) in taken.items()}, ways.batch)
    return Measured(device, host, "host", ways.batch, stop), compared
