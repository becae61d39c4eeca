"""LocalExecutor: the runner on one machine. The only part of the scheduler that acts: it opens
nothing, but it probes devices, moves arrays, runs what `choose` decided, and tells `Costs` how long
it took.

What it measures of a sampled call: with numpy operands the time from beginning to end, less what
the links are known to take; with ContextArrays the operation alone, waited for.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.errors import DeviceLost, KernelFault, OutOfDeviceMemory
from sparkle_drv.telemetry.trace import Trace

from . import probe, progress, traced
from .arrays import ContextArray, check_own
from .choose import choose
from .costs import Costs, Node
from .graph.plan import KeptGraph
from .inspector import Inspector, apart
from .journal import Journal, tell
from .line import Point
from .operations import Class
from .profile import BACK, INTO, Profile
from .validate import Check
from .work import HOST, Operand, Plan, Work

log = logging.getLogger("sparkle_drv.sched")

FIRST = 3
"""Calls of a new plan that are measured one by one."""
SAMPLE = 16
"""Then one in so many is; an asynchronous call that is measured is waited for."""
SAMPLE_S = 2e-3
"""But of short calls only one in as many as take so long: to measure, and now and then to decide
anew, costs some 30 us."""
MOST_SPARE = 1023
"""And one in so many more at least."""
SETTLED = 8
"""Measured runs of one plan, from first to last, after which it is decided anew."""
EARLY = 1 + FIRST
"""The same of the first plan of a shape: what the probes said is corrected by its first runs, and
what was decided by it must not stand."""
KEPT = 4096
"""Plans that are kept; beyond that all are forgotten."""

FAILURES = (DeviceLost, KernelFault, OutOfDeviceMemory)
"""What a device may fail with that another one can do."""

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
    """Not counting those that `spare` let pass."""
    spare: int = 0
    """Calls that may go to the device with nothing else done for them; see `again.py`."""
    measured_s: float = 0.0
    """Of the last measured run; 0: none yet."""

    def begins(self) -> bool:
        """A run begins; is it one to measure? Not the first: it may allocate and compile."""
        if self.spare:
            self.spare -= 1
            return False
        self.runs += 1
        return self.runs > 1

    def rests(self) -> None:
        """A run was measured; those that follow need not be, if it was not one of the first."""
        if 1 + FIRST <= self.runs < self.until:
            short = SAMPLE_S / self.measured_s if self.measured_s > 0 else SAMPLE
            self.spare = min(MOST_SPARE, max(SAMPLE, int(short)) - 1)


class WrongResult(KernelFault):
    """A result was looked at (validate.py) and is wrong."""


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
        self.last: Kept | KeptGraph | None = None
        self.inspector: Inspector | None = None
        self.journal: Journal | None = None
        self.trace: Trace | None = None
        self.plans: dict[object, Kept] = {}
        """By the key of `run` and the devices allowed; again.py reads it too."""
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
            if node.lost or kind.name in node.lacks:
                continue
            device = self.devices[uri]
            try:
                self._know_links(uri)
                if (kind.name, uri) in self.costs.speeds:
                    continue
                with progress.shown(f"sparkle_drv: measuring {kind.name} on {uri}"):
                    points = probe.speeds(device, kind, self.clock_of(device))
            except (DeviceLost, KernelFault) as error:
                self.failed(uri, error)
                continue
            if points:
                self.learn(uri, {kind.name: points})
            else:
                node.lacks.add(kind.name)

    def _know_links(self, uri: str) -> None:
        device = self.devices[uri]
        if not device.info.unified and (HOST, uri) not in self.costs.links:
            with progress.shown(f"sparkle_drv: measuring transfers of {uri}"):
                into, back = probe.links(device, self.clock_of(device))
            self.learn(uri, {INTO: into, BACK: back})

    def learn(self, uri: str, measured: dict[str, list[Point]], keep: bool = True) -> None:
        """Take in what was measured of a device, and keep it between runs."""
        for name, points in measured.items():
            if name == INTO:
                self.tell("linked", HOST, uri, points)
            elif name == BACK:
                self.tell("linked", uri, HOST, points)
            else:
                self.tell("probed", name, uri, points)
        if keep and self.profile is not None:
            self.profile.put(self.devices[uri].info, measured)

    def forget(self) -> None:
        """Forget all plans: what comes is decided anew."""
        self.plans.clear()

    def run(
        self,
        key: tuple[Any, ...],
        describe: Callable[[], tuple[Class, float, int]],
        operands: Sequence[Any],
        out: Any,
        run: Run,
        uris: tuple[str, ...],
        check: Check,
    ) -> Any:
        """Decide, run, learn. `key` names the shape of the call, without places; `describe` gives
        the class, the size and the bytes of the result; `check` looks at it, where that is due.
        What a device loses, or gets wrong, is done elsewhere.
        """
        moves = out.__class__ is ContextArray or any(x.__class__ is ContextArray for x in operands)
        if moves:  # plans differ by where arrays are
            check_own(self, (*operands, out))
            key = (*key, *(getattr(x, "places", None) for x in (*operands, out)))
        inspected = self.inspector is not None and self.inspector.due()
        if inspected and out is not None:
            operands = [apart(x, out) for x in operands]  # as they were: to look, or to do it again
        barred: dict[str, str] = {}
        left = uris
        while True:
            begin_ns = time.perf_counter_ns() if self.trace is not None else 0
            kept = self.plans.get((*key, left))
            if kept is None or (kept.runs >= kept.until and not kept.spare):
                until = EARLY if kept is None else SETTLED
                kept = self._decide((*key, left), describe, operands, out, uris, barred, until)
            measure = kept.begins()
            self.last = kept
            try:
                result = self._once(kept, operands, out, run, moves, measure, begin_ns)
                if inspected:
                    self._inspect(kept, check, operands, result)
                return result
            except CopyLost:  # not the fault of the device that was to do the work
                self.forget()
                raise
            except FAILURES as error:
                uri = kept.device.uri
                self.failed(uri, error)
                barred[uri] = f"it failed at this call: {error}"
                left = tuple(u for u in left if u != uri)  # not twice for one call
                if not left:
                    raise
                log.warning("%s: %s is done elsewhere: %s", uri, kept.plan.work.op, error)

    def _once(
        self, kept: Kept, operands: Sequence[Any], out: Any, run: Run, moves: bool, measure: bool,
        begin_ns: int,
    ) -> Any:  # fmt: skip
        """What was decided, done."""
        if self.trace is not None:
            return traced.run(self, self.trace, begin_ns, kept, operands, out, run)
        if moves:
            return self._on_arrays(kept, operands, out, run, measure)
        if not measure:
            return run(kept.device, operands, out)
        clock = self.clock_of(kept.device)
        begin = clock()
        result = run(kept.device, operands, out)
        self._measured(kept, clock() - begin)
        return result

    def _inspect(self, kept: Kept, check: Check, operands: Sequence[Any], result: Any) -> None:
        assert self.inspector is not None
        begin_ns = time.perf_counter_ns()
        wrong = self.inspector.look(check, operands, result)
        if self.trace is not None:
            traced.looked(self.trace, kept, begin_ns, wrong)
        if wrong:
            raise WrongResult(f"{kept.device.uri}: {kept.plan.work.op} is wrong: {wrong}")

    def _decide(
        self,
        key: object,
        describe: Callable[[], tuple[Class, float, int]],
        operands: Sequence[Any],
        out: Any,
        uris: tuple[str, ...],
        barred: dict[str, str],
        until: int,
    ) -> Kept:
        kind, size, out_nbytes = describe()
        self.know(kind, [uri for uri in uris if uri not in barred])
        given = [x for x in operands if x is not None]
        arrays = any(x.__class__ is ContextArray for x in (*given, out))
        work = Work(
            kind.name,
            size,
            tuple(Operand(x.nbytes, _places(x)) for x in given),
            out_nbytes,
            "" if arrays else HOST,
        )
        plan = choose(self.costs, work, uris, barred)
        if self.journal is not None:
            self.journal.decided(work, uris, plan, barred)
        if plan.explores:
            self.tell("explored", plan.extra_s)
        cost = plan.candidates[0].cost
        assert cost is not None
        if len(self.plans) >= KEPT:
            self.plans.clear()
        beside = cost.in_s + cost.out_s
        kept = Kept(plan, self.devices[plan.device], cost.compute_s, beside, until)
        if plan.explores:  # one run, and that one is measured
            kept.runs, kept.until = SETTLED - 1, SETTLED
        self.plans[key] = kept
        return kept

    def _measured(self, kept: Kept, seconds: float) -> None:
        kept.measured_s = seconds
        compute = seconds - kept.beside_s
        # Where the way there takes most of the time, what is left of it says little.
        compute = max(compute, 0.25 * kept.compute_s)
        work = kept.plan.work
        self.tell("ran", work.op, kept.plan.device, work.size, compute)
        kept.rests()

    def _on_arrays(
        self, kept: Kept, operands: Sequence[Any], out: Any, run: Run, measure: bool
    ) -> Any:
        device = kept.device
        uri = device.uri
        there = [x.on(uri) if isinstance(x, ContextArray) else x for x in operands]
        target = out.on(uri) if isinstance(out, ContextArray) else out
        if measure:
            device.default_queue.fence(device.default_queue.submitted).wait()
        clock = self.clock_of(device)
        begin = clock()
        made: Array = run(device, there, target)
        if measure:
            if made.fence is not None:
                made.fence.wait()
            seconds = clock() - begin
            kept.measured_s = seconds
            work = kept.plan.work
            self.tell("ran", work.op, uri, work.size, seconds)
            kept.rests()
        if out is not None:
            out.wrote(uri)
            return out
        return ContextArray(self, uri, made)

    def clock_of(self, device: Device) -> Callable[[], float]:
        """Seconds by which work on this device is timed: its own, or `clock` where it has none."""
        return device.clock or self.clock

    def moved(self, array: ContextArray, to: str) -> Array:
        """A copy of `array` on another device, made before what is launched there from now on."""
        device = self.devices.get(to)
        if device is None:
            raise ValueError(f"{to!r} is no device of this Context: {', '.join(self.devices)}")
        try:
            host = np.ascontiguousarray(array.numpy())
        except DeviceLost as error:
            for uri in array.places:
                self.failed(uri, error)
            raise CopyLost(
                f"{', '.join(array.places)}: an operand went with it: {error}"
            ) from error
        made = device.empty(array.shape, array.dtype, array.layout)
        if array.nbytes:
            device.default_queue.write(made.buffer, host.reshape(-1).view(np.uint8))
        return made

    def failed(self, uri: str, error: Exception) -> None:
        """The device did not do its work: it is trusted less, and everything is decided anew."""
        self.forget()
        self.tell("failed", uri)
        if isinstance(error, DeviceLost):
            self.tell("lost", uri, str(error))

    def tell(self, call: str, *args: Any) -> None:
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
