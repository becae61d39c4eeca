"""LocalExecutor: the runner on one machine. The only part of the scheduler that acts: it opens
nothing, but it probes devices, moves arrays, runs what `choose` decided, and tells `Costs` how long
it took.

What it measures of a sampled call: with numpy operands the time from beginning to end, less what
the links are known to take; with ContextArrays the operation alone, waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.errors import DeviceLost, KernelFault, OutOfDeviceMemory
from sparkle_drv.telemetry.trace import Trace

from . import probe, traced
from .arrays import ContextArray
from .choose import choose
from .costs import Costs, Node
from .journal import Journal, tell
from .line import Point
from .operations import Class
from .profile import BACK, INTO, Profile
from .work import HOST, Operand, Plan, Work

FIRST = 3
"""Calls of a new plan that are measured one by one."""
SAMPLE = 16
"""Then one in so many is; an asynchronous call that is measured is waited for."""
SETTLED = 64
"""Runs of one plan after which it is decided anew. The first plans of a shape last less long: what
the probes said is corrected by the first runs, and what was decided by it must not stand."""
KEPT = 4096
"""Plans that are kept; beyond that all are forgotten."""

Run = Callable[[Device, Sequence[Any], Any], Any]
"""(device, operands there, out there or None) -> what ops returned."""


@dataclass
class Kept:
    """A plan for calls of one shape, and what became of it."""

    plan: Plan
    device: Device
    compute_s: float
    """What the plan said of the operation itself."""
    beside_s: float
    """And of everything else that a measured call contains."""
    until: int = SETTLED
    """Runs after which it is decided anew."""
    runs: int = 0
    measured_s: float = 0.0
    """Of the last measured run; 0: none yet."""

    @property
    def sampled(self) -> bool:
        """Is the run that begins now one to measure? Not the first: it may allocate and compile."""
        return 1 < self.runs <= 1 + FIRST or self.runs % SAMPLE == 0


class CopyLost(DeviceLost):
    """The only copies of an operand went with their device: no other device can do the work."""


class LocalExecutor:
    """Devices of this process, their costs, and the plans that were made."""

    def __init__(
        self,
        devices: Sequence[Device],
        clock: Callable[[], float],
        profile: Profile | None = None,
    ) -> None:
        self.profile = profile
        self.devices = {device.uri: device for device in devices}
        self.costs = Costs()
        self.clock = clock
        self.last: Kept | None = None
        self.journal: Journal | None = None
        self.trace: Trace | None = None
        self._plans: dict[object, Kept] = {}
        for device in devices:
            info = device.info
            self.costs.nodes[device.uri] = Node(
                info.memory_nbytes, unified=info.unified, shares=info.shares
            )
            if profile is not None:
                self.learn(device.uri, profile.points(info), keep=False)

    def know(self, kind: Class, uris: Sequence[str]) -> None:
        """Probe what is not known yet: the way to each device, and a class of work there."""
        for uri in uris:
            node = self.costs.nodes[uri]
            if node.lost or (kind.name, uri) in self.costs.speeds or kind.name in node.lacks:
                continue
            try:
                self._know_links(uri)
                points = probe.speeds(self.devices[uri], kind, self.clock)
            except (DeviceLost, KernelFault) as error:
                self._failed(uri, error)
                continue
            if points:
                self.learn(uri, {kind.name: points})
            else:
                node.lacks.add(kind.name)

    def _know_links(self, uri: str) -> None:
        device = self.devices[uri]
        if not device.info.unified and (HOST, uri) not in self.costs.links:
            into, back = probe.links(device, self.clock)
            self.learn(uri, {INTO: into, BACK: back})

    def learn(self, uri: str, measured: dict[str, list[Point]], keep: bool = True) -> None:
        """Take in what was measured of a device, and keep it between runs."""
        for name, points in measured.items():
            if name == INTO:
                self._tell("linked", HOST, uri, points)
            elif name == BACK:
                self._tell("linked", uri, HOST, points)
            else:
                self._tell("probed", name, uri, points)
        if keep and self.profile is not None:
            self.profile.put(self.devices[uri].info, measured)

    def forget(self) -> None:
        """Forget all plans: what comes is decided anew."""
        self._plans.clear()

    def run(
        self,
        key: object,
        describe: Callable[[], tuple[Class, float, int]],
        operands: Sequence[Any],
        out: Any,
        run: Run,
        uris: tuple[str, ...],
    ) -> Any:
        """Decide, run, learn. `key` names the shape of the call, without places; `describe` gives
        the class, the size and the bytes of the result. What a device loses is done elsewhere.
        """
        moves = out.__class__ is ContextArray or any(x.__class__ is ContextArray for x in operands)
        if moves:  # plans differ by where arrays are
            for x in (*operands, out):
                if x.__class__ is ContextArray and x.closed:
                    raise ValueError("an open ContextArray is wanted, this one is closed")
            key = (key, *(getattr(x, "places", None) for x in (*operands, out)))
        while True:
            begin_ns = time.perf_counter_ns() if self.trace is not None else 0
            kept = self._plans.get((key, uris))
            if kept is None or kept.runs >= kept.until:
                lasts = 2 + FIRST if kept is None else min(SETTLED, 2 * kept.until)
                kept = self._decide((key, uris), describe, operands, out, uris, lasts)
            kept.runs += 1
            self.last = kept
            try:
                if self.trace is not None:
                    return traced.run(self, self.trace, begin_ns, kept, operands, out, run)
                if moves:
                    return self._on_arrays(kept, operands, out, run)
                if not kept.sampled:
                    return run(kept.device, operands, out)
                begin = self.clock()
                result = run(kept.device, operands, out)
                self._measured(kept, self.clock() - begin)
                return result
            except CopyLost:  # not the fault of the device that was to do the work
                self._plans.clear()
                raise
            except (DeviceLost, KernelFault, OutOfDeviceMemory) as error:
                self._plans.clear()
                self._failed(kept.device.uri, error)
                uris = tuple(u for u in uris if u != kept.device.uri)  # not twice for one call
                if not uris:
                    raise

    def _decide(
        self,
        key: object,
        describe: Callable[[], tuple[Class, float, int]],
        operands: Sequence[Any],
        out: Any,
        uris: tuple[str, ...],
        lasts: int,
    ) -> Kept:
        kind, size, out_nbytes = describe()
        self.know(kind, uris)
        given = [x for x in operands if x is not None]
        arrays = any(x.__class__ is ContextArray for x in (*given, out))
        work = Work(
            kind.name,
            size,
            tuple(Operand(x.nbytes, _places(x)) for x in given),
            out_nbytes,
            "" if arrays else HOST,
        )
        plan = choose(self.costs, work, uris)
        if self.journal is not None:
            self.journal.decided(work, uris, plan)
        if plan.explores:
            self._tell("explored", plan.extra_s)
        cost = plan.candidates[0].cost
        assert cost is not None
        if len(self._plans) >= KEPT:
            self._plans.clear()
        beside = cost.in_s + cost.out_s
        kept = Kept(plan, self.devices[plan.device], cost.compute_s, beside, lasts)
        if plan.explores:  # one run, and that one is measured
            kept.runs, kept.until = SETTLED - 1, SETTLED
        self._plans[key] = kept
        return kept

    def _measured(self, kept: Kept, seconds: float) -> None:
        kept.measured_s = seconds
        compute = seconds - kept.beside_s
        # Where the way there takes most of the time, what is left of it says little.
        compute = max(compute, 0.25 * kept.compute_s)
        work = kept.plan.work
        self._tell("ran", work.op, kept.plan.device, work.size, compute)

    def _on_arrays(self, kept: Kept, operands: Sequence[Any], out: Any, run: Run) -> Any:
        device = kept.device
        uri = device.uri
        there = [x.on(uri) if isinstance(x, ContextArray) else x for x in operands]
        target = out.on(uri) if isinstance(out, ContextArray) else out
        measure = kept.sampled
        if measure:
            device.default_queue.fence(device.default_queue.submitted).wait()
        begin = self.clock()
        made: Array = run(device, there, target)
        if measure:
            if made.fence is not None:
                made.fence.wait()
            seconds = self.clock() - begin
            kept.measured_s = seconds
            work = kept.plan.work
            self._tell("ran", work.op, uri, work.size, seconds)
        if out is not None:
            out.wrote(uri)
            return out
        return ContextArray(self, uri, made)

    def moved(self, array: ContextArray, to: str) -> Array:
        """A copy of `array` on another device, made before what is launched there from now on."""
        device = self.devices.get(to)
        if device is None:
            raise ValueError(f"{to!r} is no device of this Context: {', '.join(self.devices)}")
        try:
            host = np.ascontiguousarray(array.numpy())
        except DeviceLost as error:
            for uri in array.places:
                self._failed(uri, error)
            raise CopyLost(
                f"{', '.join(array.places)}: an operand went with it: {error}"
            ) from error
        made = device.empty(array.shape, array.dtype, array.layout)
        if array.nbytes:
            device.default_queue.write(made.buffer, host.reshape(-1).view(np.uint8))
        return made

    def _failed(self, uri: str, error: Exception) -> None:
        self._tell("failed", uri)
        if isinstance(error, DeviceLost):
            self._tell("lost", uri, str(error))

    def _tell(self, call: str, *args: Any) -> None:
        """Change the costs, and note it in the journal if there is one."""
        tell(self.costs, call, args)
        if self.journal is not None:
            self.journal.told(call, *args)


def _places(x: Any) -> frozenset[str]:
    if isinstance(x, ContextArray):
        return frozenset(x.places)
    return frozenset({HOST})


def default_clock() -> Callable[[], float]:
    """Seconds of a clock that never goes back."""
    return time.perf_counter
