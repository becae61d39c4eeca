"""The loops that pipeline_overlap.py times over the same steps: a serial one, and one with a ring
of slots.

If other processes took the cores, a round says little about overlap, because no core was free to
overlap on. Such rounds are set aside and counted.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

import sparkle_drv as sp
from _overlap.steps import Slot, Work

TIMEOUT_S = 120.0
STARVED = 0.25  # a round is calm (it counts) if `Run.starved` of each of its loops is below this


@dataclass
class Run:
    """One pass of a loop over all steps: its seconds, the results of the steps, and how full the
    ring of slots was.
    """

    seconds: float
    losses: list[float]
    device_s: float
    queued_s: float  # seconds in which threads were ready but had no core
    in_flight: float = 0.0
    waited: float = 0.0

    @property
    def starved(self) -> float:
        """The time that the loop's threads were ready to run but had no core, summed over the
        threads, as a share of the loop's time. With two threads the share can reach 2.
        """
        return self.queued_s / self.seconds


# the runs of one round; key: depth of the pipeline (its number of slots), 0 for the serial loop
Round = dict[int, Run]


def queued() -> float:
    """Returns the seconds that threads of this process have waited for a core. Returns 0 if the
    Linux kernel does not count them.
    """
    total = 0
    for task in Path("/proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, IndexError):
            total += int(task.read_text().split()[1])
    return total / 1e9


def serial(work: Work, steps: int, judge: bool = False) -> Run:
    losses, fences, slot = [], [], work.alone
    before, start = queued(), time.perf_counter()
    for step in range(steps):
        work.fill(slot, step)
        fences.append(work.queue.submit(slot.commands).wait(TIMEOUT_S))
        losses.append(work.consume(slot))
        if judge:
            work.judge(work.result(slot), step, "serial")
    seconds, queued_s = time.perf_counter() - start, queued() - before
    return Run(seconds, losses, _device_s(fences), queued_s)


def pipelined(work: Work, steps: int, depth: int, judge: bool = False) -> Run:
    losses, fences = [], []
    in_flight = waited = 0

    def finish(slot: Slot, step: int) -> None:
        losses.append(work.consume(slot))
        if judge:
            work.judge(work.result(slot), step, f"depth {depth}")

    with work.dev.pipeline(depth, lambda: Slot(work.dev, work), work.queue) as pipe:
        before, start = queued(), time.perf_counter()
        for step in range(steps):
            busy = pipe.in_flight if step >= depth else 0
            in_flight, waited = in_flight + busy, waited + (busy == depth)
            slot = pipe.acquire(TIMEOUT_S)
            if step >= depth:
                finish(slot, step - depth)
            work.fill(slot, step)
            fences.append(pipe.submit(slot, slot.commands))
        for step in range(steps - depth, steps):
            finish(pipe.acquire(TIMEOUT_S), step)
        seconds, queued_s = time.perf_counter() - start, queued() - before
    full = max(1, steps - depth)
    return Run(seconds, losses, _device_s(fences), queued_s, in_flight / full, waited / full)


def _device_s(fences: list[sp.Fence]) -> float:
    return sum(fence.time_ns for fence in fences) / 1e9


def measure(
    work: Work, steps: int, rounds: int, depths: list[int], timeout_s: float
) -> tuple[list[Round], list[Round]]:
    """Verifies the loops, then times them in turns, in an order that rotates.

    A round is calm if other processes took few cores: each loop's `starved` is below STARVED. The
    measurement ends after `rounds` calm rounds, or after `timeout_s`. Returns (rounds that count,
    rounds set aside). The calm rounds count. If no round is calm, all rounds count.
    """
    order = [0, *depths]

    def once(depth: int, judge: bool) -> Run:
        return pipelined(work, steps, depth, judge) if depth else serial(work, steps, judge)

    judged = [once(depth, judge=True) for depth in order]
    calm: list[Round] = []
    busy: list[Round] = []
    begun = time.monotonic()
    while len(calm) < rounds and (not calm + busy or time.monotonic() - begun < timeout_s):
        at = len(calm + busy) % len(order)
        taken: Round = {}
        for depth in order[at:] + order[:at]:
            taken[depth] = once(depth, judge=False)
            if taken[depth].losses != judged[0].losses:
                raise ValueError(
                    f"depth {depth}: the timed run gave other results than the verified one"
                )
        (calm if all(run.starved < STARVED for run in taken.values()) else busy).append(taken)
    return (calm, busy) if calm else (busy, [])
