"""What is known about the speed of everything: operations on devices, links, reliability, load.

State and arithmetic only: no clock, no device. `choose.py` reads it, the runner feeds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sparkle_drv.mesh.links.line import Line, Point, fit
from sparkle_drv.mesh.links.network import HOST
from sparkle_drv.mesh.links.transfer import nearest, transfer_s
from sparkle_drv.types import in_common

from .speed import Speed
from .work import Cost, Work

FAILURE_MEMORY = 20
"""Runs after which a failure counts for a third of what it did."""
EXPLORE = 0.001
"""The share of all time spent that may go into runs on devices that look slower, to learn about
them: without them, a device that was slow once would be left alone for ever."""
TRIES = 3
"""Probes of one thing on one device that may fail before it is left at that."""
MOST_FAILED = 6
"""Probes of a device that may fail one after the other, whatever they are of: a device that hangs
keeps everybody waiting each time."""


@dataclass
class Reliability:
    """How often a device fails, and what a failure costs: the run lost, then done elsewhere."""

    failures: float = 0.0
    """The share of runs that failed, recent ones counting most."""

    def ran(self, failed: bool) -> None:
        """A run ended."""
        self.failures += (float(failed) - self.failures) / FAILURE_MEMORY

    def risk_s(self, seconds: float) -> float:
        """Expected seconds lost: of a failed run all, and another is made."""
        share = min(self.failures, 0.95)
        return seconds * share / (1 - share)


@dataclass
class Node:
    """One device as the planner sees it."""

    memory_nbytes: int
    """Bytes that buffers can take; 0: unknown, not a limit."""
    unified: bool = False
    """Host memory needs no copy."""
    shares: tuple[str, ...] = ()
    """Resources that other devices use too: work on them waits for one another."""
    sync_s: float = 0.0
    """Seconds from the end of work to a waiter that knows, beyond what probes and measured runs
    contain: they wait for the end, and so it is 0 unless somebody says otherwise."""
    lacks: set[str] = field(default_factory=set)
    """Classes of work that it was found not to do."""
    reliability: Reliability = field(default_factory=Reliability)
    lost: str = ""
    """Why it is gone; "": it is there."""
    failed_probes: int = 0
    """One after the other, the last ones."""
    queued_s: float = 0.0
    """Predicted seconds of what has been given to it and has not ended, while that is decided by;
    see `LocalExecutor.run`."""


@dataclass(frozen=True)
class Unmeasured:
    """A probe that failed, so many times."""

    times: int
    why: str

    def __str__(self) -> str:
        often = f"probe failed {self.times} times" if self.times > 1 else "probe failed"
        return f"its {often}: {self.why}"


@dataclass
class Costs:
    """Every device, every operation that was probed, every link."""

    nodes: dict[str, Node] = field(default_factory=dict)
    """By URI."""
    speeds: dict[tuple[str, str], Speed] = field(default_factory=dict)
    """By (operation, URI)."""
    links: dict[tuple[str, str], Line] = field(default_factory=dict)
    """By (from, to), HOST among them; seconds by bytes."""
    unmeasured: dict[tuple[str, str], Unmeasured] = field(default_factory=dict)
    """What could not be measured: by (operation, URI), or (from, to) as of a link; of HOST in both
    directions."""
    spare_s: float = 0.0
    """Seconds that exploring may cost now; see EXPLORE."""
    runs: dict[str, int] = field(default_factory=dict)
    """How many runs of each operation there were."""
    last: dict[tuple[str, str], int] = field(default_factory=dict)
    """By (operation, URI): the number of the last run there."""

    def probed(self, op: str, device: str, points: Sequence[Point]) -> None:
        """Start-up probes of one operation: (size, seconds). ValueError without a usable one."""
        self.speeds[op, device] = Speed.of(points)
        self._measured(op, device)

    def linked(self, source: str, to: str, points: Sequence[Point]) -> None:
        """Probes of a way: (bytes, seconds). ValueError without a usable one."""
        self.links[source, to] = fit(points)
        if source != HOST or (to, HOST) in self.links:
            self._measured(source, to)

    def _measured(self, what: str, device: str) -> None:
        self.unmeasured.pop((what, device), None)
        if device in self.nodes:
            self.nodes[device].failed_probes = 0

    def probe_failed(self, what: str, device: str, why: str) -> None:
        """A probe of the device, or of a way to it, failed: see `unmeasured`."""
        before = self.unmeasured.get((what, device))
        self.unmeasured[what, device] = Unmeasured(before.times + 1 if before else 1, why)
        if what not in self.nodes:  # a way may have failed for the other one's sake
            self.nodes[device].failed_probes += 1

    def to_probe(self, what: str, device: str) -> bool:
        """May it be tried, or tried again, to measure this?"""
        node, before = self.nodes[device], self.unmeasured.get((what, device))
        if node.lost or node.failed_probes >= MOST_FAILED:
            return False
        return before is None or before.times < TRIES

    def why_not(self, *what: str, device: str) -> str:
        """Why the first of these that could not be measured of a device could not; "": all could,
        or nobody tried.
        """
        found = (self.unmeasured.get((one, device)) for one in what)
        why = next((str(one) for one in found if one), "")
        node = self.nodes.get(device)
        if not why and node is not None and node.failed_probes >= MOST_FAILED:
            why = f"{node.failed_probes} probes of it failed one after the other"
        return why

    def lost(self, device: str, why: str) -> None:
        """The device is gone for good."""
        self.nodes[device].lost = why

    def ran(self, op: str, device: str, size: float, seconds: float) -> None:
        """A run of an operation that was probed took so long on the device, transfers apart."""
        speed = self.speeds.get((op, device))
        if speed is not None:
            speed.observe(size, seconds)
        self.nodes[device].reliability.ran(failed=False)
        self.spare_s += EXPLORE * seconds
        self.runs[op] = self.last[op, device] = self.runs.get(op, 0) + 1

    def queued(self, device: str, seconds: float) -> None:
        """So much has been given to the device and has not ended."""
        self.nodes[device].queued_s = seconds

    def explored(self, extra_s: float) -> None:
        """A run that explores was decided, predicted to cost so much more than the best."""
        self.spare_s -= extra_s

    def idle_runs(self, op: str, device: str) -> int:
        """Runs of the operation elsewhere since the last one on this device, or the probes."""
        return self.runs.get(op, 0) - self.last.get((op, device), 0)

    def failed(self, device: str) -> None:
        """A run on the device ended in an error that is the device's."""
        self.nodes[device].reliability.ran(failed=True)

    def transfer_s(self, nbytes: int, places: frozenset[str], to: str) -> float:
        """As mesh/links/transfer.py says."""
        return transfer_s(self.links, self._same_memory, nbytes, places, to)

    def nearest(self, nbytes: int, places: frozenset[str], to: str) -> list[str]:
        """As mesh/links/transfer.py says."""
        return nearest(self.links, self._same_memory, nbytes, places, to)

    def _same_memory(self, place: str) -> bool:
        return place == HOST or (place in self.nodes and self.nodes[place].unified)

    def waits_for(self, device: str) -> list[str]:
        """The device, and what shares a resource with it."""
        mine = self.nodes[device].shares
        return [u for u, n in self.nodes.items() if u == device or in_common(mine, n.shares)]

    def wait_s(self, device: str) -> float:
        """Until the device, and whatever shares a resource with it, is idle."""
        return sum(self.nodes[uri].queued_s for uri in self.waits_for(device))

    def of(self, work: Work, device: str) -> Cost:
        """What `work` costs on a device whose speed at it is known, and at the changes of layout
        before it. KeyError where one is not.
        """
        node = self.nodes[device]
        compute = self.speeds[work.op, device].at(work.size)
        into = sum(self.transfer_s(x.nbytes, x.places, device) for x in work.operands)
        out = 0.0
        if work.out_place:
            out = self.transfer_s(work.out_nbytes, frozenset({device}), work.out_place)
        converted = sum(
            self.speeds[x.convert, device].at(x.nbytes) for x in work.operands if x.convert
        )
        spent = compute + into + out + converted
        return Cost(
            compute_s=compute,
            in_s=into,
            out_s=out,
            convert_s=converted,
            sync_s=node.sync_s,
            wait_s=self.wait_s(device),
            risk_s=node.reliability.risk_s(spent),
        )
