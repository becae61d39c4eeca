"""Costs: the speeds of operations on devices and of links, how often devices fail, and the work
that is queued on them.

The module holds state and does arithmetic: no clock, no device. `choose.py` reads Costs; the code
that runs work updates them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sparkle_drv.mesh.links.line import Line, Point, fit
from sparkle_drv.mesh.links.network import HOST
from sparkle_drv.mesh.links.transfer import nearest, transfer_s
from sparkle_drv.types import in_common

from .speed import Speed
from .work import Cost, Work

FAILURE_MEMORY = 20
"""Runs after which a failure has a third of its first weight in the share of failed runs."""
EXPLORE = 0.001
"""The share of all time that may go into trials on devices that look slower. Without trials, a
device that was slow once would never be used again."""
TRIES = 3
"""Failed probes of one operation on one device after which it is not probed again."""
MOST_FAILED = 6
"""Failed probes of a device in a row, of any operation, after which it is not probed again. A
device that hangs would keep all callers waiting each time."""


@dataclass
class Reliability:
    """How often a device fails. A failure costs the lost run and a new run on another device."""

    failures: float = 0.0
    """The fraction of runs that failed; recent runs count most."""

    def ran(self, failed: bool) -> None:
        """Updates the fraction of runs that failed, after one more run."""
        self.failures += (float(failed) - self.failures) / FAILURE_MEMORY

    def risk_s(self, seconds: float) -> float:
        """Returns the expected seconds that failures cost: a failed run is lost, and the work runs
        again on another device.
        """
        share = min(self.failures, 0.95)
        return seconds * share / (1 - share)


@dataclass
class DeviceCosts:
    """What the planner knows of one device."""

    memory_nbytes: int
    """Bytes that buffers can take; 0 if unknown, which sets no limit."""
    unified: bool = False
    """Whether the device can use host memory without a copy."""
    shares: tuple[str, ...] = ()
    """Resources that other devices use, too. Work on devices that share one waits for one
    another."""
    lacks: set[str] = field(default_factory=set)
    """Classes of work of which the device can do no call, as probes found."""
    reliability: Reliability = field(default_factory=Reliability)
    lost: str = ""
    """Why the device is gone; "" if it is usable."""
    failed_probes: int = 0
    """Probes that failed in a row, up to now."""
    queued_s: float = 0.0
    """Predicted seconds of the device's unfinished work at the time of a decision; see
    `LocalExecutor.run`."""


@dataclass(frozen=True)
class Unmeasured:
    """An operation or link whose probe failed `times` times. `why` is the last reason."""

    times: int
    why: str

    def __str__(self) -> str:
        often = f"probe failed {self.times} times" if self.times > 1 else "probe failed"
        return f"its {often}: {self.why}"


@dataclass
class Costs:
    """What is known of every device, every probed operation, every link."""

    nodes: dict[str, DeviceCosts] = field(default_factory=dict)
    """The devices, by URI."""
    speeds: dict[tuple[str, str], Speed] = field(default_factory=dict)
    """The speed of each operation on each device, by (operation, URI)."""
    links: dict[tuple[str, str], Line] = field(default_factory=dict)
    """For each (from, to), the cost line of a transfer in bytes. `from` or `to` may be HOST."""
    parts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """For each predicted operation, the operations that its speed is predicted from."""
    unmeasured: dict[tuple[str, str], Unmeasured] = field(default_factory=dict)
    """The failed probes, by (operation, URI), or by (from, to) for a link. (HOST, URI) stands for
    both directions between the host and a device."""
    spare_s: float = 0.0
    """Seconds that exploration may cost now; see EXPLORE."""
    runs: dict[str, int] = field(default_factory=dict)
    """The number of runs of each operation."""
    last: dict[tuple[str, str], int] = field(default_factory=dict)
    """The number of the last run of an operation on a device, by (operation, URI)."""

    def probed(self, op: str, device: str, points: Sequence[Point]) -> None:
        """Stores the first probes of an operation: (size, seconds). Raises ValueError if none is
        usable.
        """
        self.speeds[op, device] = Speed.of(points)
        self._measured(op, device)

    def predicted(
        self, op: str, device: str, base: str, terms: Sequence[tuple[str, float]]
    ) -> None:
        """Predicts the speed of the operation `op` from its parts, if `op` has no speed yet and all
        parts have one.

        The prediction starts from the speed of the operation `base`. Each of `terms` is (other
        operation, scale). The other operation takes more seconds per unit of size than `base`.
        `scale` times this difference is added to the prediction.
        """
        self.parts[op] = (base, *(name for name, _ in terms))
        found = [self.speeds.get((name, device)) for name in self.parts[op]]
        known = [speed for speed in found if speed is not None]
        if len(known) < len(found) or (op, device) in self.speeds:
            return
        least, *others = known
        extra = sum(
            scale * max(0.0, speed.line.b - least.line.b)
            for speed, (_, scale) in zip(others, terms, strict=True)
        )
        self.speeds[op, device] = least.and_more(extra)

    def basis(self, op: str, device: str) -> str:
        """Describes how the speed of an operation is known if it was never probed; "" if it was
        probed.
        """
        speed = self.speeds[op, device]
        if not speed.predicted:
            return ""
        return f"predicted from its operations, corrected by {speed.runs} calls"

    def linked(self, source: str, to: str, points: Sequence[Point]) -> None:
        """Stores the probes of a link: (bytes, seconds). Raises ValueError if none is usable."""
        self.links[source, to] = fit(points)
        if source != HOST or (to, HOST) in self.links:
            self._measured(source, to)

    def _measured(self, what: str, device: str) -> None:
        self.unmeasured.pop((what, device), None)
        if device in self.nodes:
            self.nodes[device].failed_probes = 0

    def probe_failed(self, what: str, device: str, why: str) -> None:
        """Records in `unmeasured` that a probe of the operation `what` on the device failed, or of
        the link to the device from `what`.
        """
        before = self.unmeasured.get((what, device))
        self.unmeasured[what, device] = Unmeasured(before.times + 1 if before else 1, why)
        # A failed probe of a link does not count against this device, because the device at the
        # other end may be at fault.
        if what not in self.nodes:
            self.nodes[device].failed_probes += 1

    def to_probe(self, what: str, device: str) -> bool:
        """Returns whether the operation or link `what` may be probed now, for the first time or
        again.
        """
        node, before = self.nodes[device], self.unmeasured.get((what, device))
        if node.lost or node.failed_probes >= MOST_FAILED:
            return False
        return before is None or before.times < TRIES

    def why_not(self, *what: str, device: str) -> str:
        """Returns why a probe on the device failed, or "" if none did.

        `what` names operations or links. An operation may consist of parts that are probed one by
        one (`self.parts`). Each name and its parts are looked up in order. The first failure found
        is returned.
        """
        parts = [part for one in what for part in (one, *self.parts.get(one, ()))]
        found = (self.unmeasured.get((one, device)) for one in parts)
        why = next((str(one) for one in found if one), "")
        node = self.nodes.get(device)
        if not why and node is not None and node.failed_probes >= MOST_FAILED:
            why = f"{node.failed_probes} probes of it failed one after the other"
        return why

    def lost(self, device: str, why: str) -> None:
        """Marks a device as gone for good."""
        self.nodes[device].lost = why

    def ran(self, op: str, device: str, size: float, seconds: float) -> None:
        """Records that a run of an operation took `seconds` on the device, transfers excluded."""
        speed = self.speeds.get((op, device))
        if speed is not None:
            speed.observe(size, seconds)
        self.nodes[device].reliability.ran(failed=False)
        self.spare_s += EXPLORE * seconds
        self.runs[op] = self.last[op, device] = self.runs.get(op, 0) + 1

    def beside(self, queued_s: Mapping[str, float]) -> Costs:
        """Returns these costs, with seconds of unfinished work by URI. The result shares all else,
        so it is for reading, before these costs change.
        """
        if not queued_s:
            return self
        nodes = {
            uri: replace(node, queued_s=queued_s.get(uri, 0.0)) for uri, node in self.nodes.items()
        }
        return replace(self, nodes=nodes)

    def queued(self, device: str, seconds: float) -> None:
        """Records that the device has `seconds` of unfinished work."""
        self.nodes[device].queued_s = seconds

    def explored(self, extra_s: float) -> None:
        """Records a decision for a trial, which is predicted to cost `extra_s` more than the best
        plan.
        """
        self.spare_s -= extra_s

    def idle_runs(self, op: str, device: str) -> int:
        """Returns how often the operation ran on other devices since its last run or probe on this
        one.
        """
        return self.runs.get(op, 0) - self.last.get((op, device), 0)

    def failed(self, device: str) -> None:
        """Records that a run failed by a fault of the device."""
        self.nodes[device].reliability.ran(failed=True)

    def transfer_s(self, nbytes: int, places: frozenset[str], to: str) -> float:
        """Returns seconds for moving an array to `to`; see mesh/links/transfer.py."""
        return transfer_s(self.links, self._same_memory, nbytes, places, to)

    def nearest(self, nbytes: int, places: frozenset[str], to: str) -> list[str]:
        """Returns `places` (HOST or URIs) by the time that a copy of `nbytes` from there to `to`
        takes, the fastest first; see mesh/links/transfer.py.
        """
        return nearest(self.links, self._same_memory, nbytes, places, to)

    def _same_memory(self, place: str) -> bool:
        return place == HOST or (place in self.nodes and self.nodes[place].unified)

    def waits_for(self, device: str) -> list[str]:
        """Returns the devices whose queued work delays new work on `device`: the device itself, and
        all devices that share a resource with it.
        """
        mine = self.nodes[device].shares
        return [u for u, n in self.nodes.items() if u == device or in_common(mine, n.shares)]

    def wait_s(self, device: str) -> float:
        """Returns the seconds until the device, and all that share a resource with it, are idle."""
        return sum(self.nodes[uri].queued_s for uri in self.waits_for(device))

    def of(self, work: Work, device: str) -> Cost:
        """Returns the cost of `work` on a device. Raises KeyError if the device's speed at the
        work, or at a change of layout before it, is unknown.
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
            wait_s=self.wait_s(device),
            risk_s=node.reliability.risk_s(spent),
        )
