"""LocalExecutor: runs the calls of a Context on the devices of this process.

It probes devices, moves arrays, runs what `choose` decided, and reports times to `Costs`. It opens
no device. Some calls are measured: it times each step and waits for its end (timed_steps.py). With
numpy operands on a device that shares the host's memory there is a single step.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from sparkle_drv.core.array import Array
from sparkle_drv.core.deferred.waiting_arrays import WaitingArrays
from sparkle_drv.core.device import Device
from sparkle_drv.core.queue import Queue
from sparkle_drv.errors import DeviceLost, FenceTimeout
from sparkle_drv.fork_lock import fork_lock
from sparkle_drv.mesh.lanes.array_runner import Ways
from sparkle_drv.mesh.links.line import Point
from sparkle_drv.mesh.links.network import HOST
from sparkle_drv.mesh.links.probe import FAILURES as FAILED_PROBES
from sparkle_drv.mesh.survey_result import LINK, named
from sparkle_drv.sched.decide.choose import after
from sparkle_drv.sched.decide.kept_plan import KeptPlan
from sparkle_drv.sched.journal.journal import Journal, tell
from sparkle_drv.sched.model.costs import Costs, DeviceCosts
from sparkle_drv.sched.model.graph_plan import KeptGraph
from sparkle_drv.sched.model.load import Load
from sparkle_drv.sched.model.profile import Profile
from sparkle_drv.sched.model.work import Measured
from sparkle_drv.sched.model.work_class import Class, Predicted
from sparkle_drv.sched.operations.operation import Request
from sparkle_drv.sched.operations.table import LAYOUT, PEAK
from sparkle_drv.sched.shard.terms import Terms
from sparkle_drv.telemetry import progress
from sparkle_drv.telemetry.trace import Trace

from . import call_plan, call_spans, probe, timed_steps, unplanned, ways
from .arrays import ContextArray, apart, on_host, there
from .failures import FAILURES, WrongResult, may_be_redone
from .health_monitor import HealthMonitor, Remains
from .inspector import Inspector
from .shared_plan import KeptShards
from .stopwatch import Stopwatch
from .unplanned import changed_on

log = logging.getLogger("sparkle_drv.sched")


class LocalExecutor:
    """Devices of this process, their costs, and the plans that were made."""

    def __init__(
        self,
        devices: Sequence[Device],
        clock: Callable[[], float],
        profile: Profile | None = None,
        aside: Mapping[str, str] | None = None,
    ) -> None:
        self.profile = profile
        self.devices = {device.uri: device for device in devices}
        self.aside = dict(aside or {})
        """The reason for each device that takes part only when it is named, by URI
        (decide/opt_in.py)."""
        self.usual = tuple(uri for uri in self.devices if uri not in self.aside)
        """URIs of the devices that need not be named to take part."""
        self.costs = Costs()
        self.clock = clock
        self.last: KeptPlan | KeptGraph | KeptShards | None = None
        self.inspector: Inspector | None = None
        self.journal: Journal | None = None
        self.trace: Trace | None = None
        self.plans: dict[object, KeptPlan] = {}
        """The plans, by the key of `run`. The key contains the URIs allowed; calls.py reads the
        plans, too."""
        self.ways = Ways(self.devices)
        """Moves bytes for calls, graphs and meshes."""
        self.load = Load(devices)
        self.shared: dict[object, KeptShards] = {}
        """Decisions for calls that several devices may share (sharding.py)."""
        self.queues: dict[tuple[str, str], Queue] = {}
        """Queues for transfers beside work in the default queue, by (URI, direction); see
        operands.py."""
        self.waiting = WaitingArrays("a Context")
        self.usual_terms: Terms | None = None
        """How devices share a call that says nothing of it; None if one device runs it."""
        self.health = HealthMonitor(self.devices, self.clock_of)
        self.remains = Remains()
        self._hung: set[str] = set()
        """URIs of devices that were not idle since a wait for them timed out."""
        self.deciding = fork_lock()
        """Lock held from reading the costs until the journal has the decision. It is never held
        while waiting for a device."""
        self.probing = self.ways.measuring
        """Lock held while something is measured: probes must not disturb one another."""
        self.closed = False
        """Whether the executor's Context is closed."""
        for device in devices:
            info = device.info
            self.costs.nodes[device.uri] = DeviceCosts(
                info.memory_nbytes, unified=info.unified, shares=info.shares
            )
            if profile is not None:
                self.learn(device.uri, profile.points(info), keep=False)

    def check_open(self) -> None:
        """Raises DeviceLost once the executor's Context is closed, and in a forked child."""
        if self.closed:
            raise DeviceLost(f"{', '.join(self.devices)}: the Context is closed")
        next(iter(self.devices.values()))._check_process()

    def close(self) -> None:
        """Ends the executor's work: later calls raise DeviceLost."""
        self.closed = True
        self.health.forget()
        self.queues.clear()
        self.forget()

    def know(self, kind: Class, uris: Sequence[str]) -> None:
        """Measures, for each device of `uris`, the link from the host and the speed of the class
        `kind`, unless they are known.
        """
        self.check_open()
        for uri in uris:
            if not self.costs.nodes[uri].lost and ways.know_host(self, uri):
                self._know(kind, uri)

    def lacking(self, kind: Class, uris: Sequence[str]) -> dict[str, str]:
        """Returns, by URI, why a device has no kernel for the call whose class is `kind`."""
        return kind.lacking(self.devices[u] for u in uris if not self.costs.nodes[u].lost)

    def _know(self, kind: Class, uri: str) -> None:
        if kind.predicted is None:
            self._probed(kind, uri)
        elif not self._knows(kind.name, uri) and not self.lacking(kind, (uri,)):
            self._predict(kind.name, kind.predicted, uri)

    def _predict(self, name: str, how: Predicted, uri: str) -> None:
        for one in (how.base, *(term for term, _ in how.terms)):
            if not self._probed(one, uri):  # a probe failed: the next one would fail the same way
                break
        terms = [(term.name, scale) for term, scale in how.terms if scale]
        self.tell("predicted", name, uri, how.base.name, terms)

    def _probed(self, kind: Class, uri: str) -> bool:
        """Probes a class on a device if it is unknown, as `probed` does."""
        known = partial(self._knows, kind.name, uri)
        return self.probed(kind.name, uri, known, partial(self._probe, kind, uri))

    def _knows(self, what: str, uri: str) -> bool:
        return (what, uri) in self.costs.speeds or what in self.costs.nodes[uri].lacks

    def _probe(self, kind: Class, uri: str) -> None:
        device = self.devices[uri]
        with progress.reported(f"measuring {kind.name} on {uri}"):
            points = probe.speeds(device, kind, self.clock_of(device))
        if points:
            self.learn(uri, {kind.name: points})
        else:
            self.costs.nodes[uri].lacks.add(kind.name)

    def probed(
        self, what: str, uri: str, known: Callable[[], bool], measure: Callable[[], None],
        own: bool = True,
    ) -> bool:  # fmt: skip
        """Calls `measure` to measure `what`, a class of work or a link, if `known` returns false.
        Does not call it if that measurement failed too often. Returns whether `what` is known now.

        After an error, the next call of this method measures again. The error counts as a failure
        of the device `uri`, unless `own` is false: then another device may be at fault.
        """
        if known():
            return True
        with self.probing:
            if known():  # another thread has measured `what` meanwhile
                return True
            if not self.costs.to_probe(what, uri):
                return False
            try:
                measure()
            except FAILED_PROBES as error:
                if own:
                    self.failed(uri, error)
                self.tell("probe_failed", what, uri, str(error))
                name = f"the way from {what}" if what in (HOST, *self.devices) else what
                log.warning("%s: the probe of %s failed: %s", uri, name, error)
                return False
            return True

    def learn(self, uri: str, measured: dict[str, list[Point]], keep: bool = True) -> None:
        """Stores measurements of a device in the costs. With `keep`, also stores them in the
        profile file, for later processes.
        """
        infos = {other: device.info for other, device in self.devices.items()}
        for name, points in measured.items():
            if name.startswith(LINK):
                for source, to in named(infos, uri, name):
                    self.ways.points[source, to] = points
                    self.tell("linked", source, to, points)
            else:
                self.tell("probed", name, uri, points)
                if name == PEAK and points:
                    best = max(size / seconds for size, seconds in points) / 1e9
                    kept = keep and self.profile is not None
                    self.devices[uri].learned(kept, peak_gflops=best)
        if keep and self.profile is not None:
            self.profile.put(self.devices[uri].info, measured)

    def forget(self) -> None:
        """Drops all plans, so that later calls are decided again."""
        self.plans.clear()
        self.shared.clear()

    def run(self, request: Request, key: tuple[Any, ...], uris: tuple[str, ...]) -> Any:
        """Decides, runs and learns: makes one call. If a device fails or gives a wrong result,
        another one does the call.

        `key` is `uris` and all else that distinguishes calls.
        """
        trace = self.trace  # one trace for this call, even if another thread starts or stops one
        if trace is not None:
            call_spans.checked(trace)
        kept, out = self.plans.get(key), request.out
        if kept is None and request.task is None:
            return unplanned.run(self, request, uris)
        operands = request.operands.values()
        moves = any(isinstance(x, ContextArray) for x in (*operands, out))
        if moves and not (out is None or isinstance(out, ContextArray)):
            request.check()  # refuses this `out`, for which another call's plan may be kept
        inspected = self.inspector is not None and self.inspector.due()
        if inspected and out is not None:
            # Operands that `out` overlaps are copied: the check, or a second try, reads them after
            # `out` was written.
            request = request.given({n: apart(x, out) for n, x in request.operands.items()})
        barred = self.hung(uris)
        left = tuple(uri for uri in uris if uri not in barred)
        failure: Exception | None = None
        while True:
            begin_ns = time.perf_counter_ns() if trace is not None else 0
            kept = self.plans.get(key)
            if kept is None or kept.due:
                with after(failure):
                    kept = call_plan.kept_plan(self, request, key, uris, barred)
            if moves and call_plan.is_busy(self, kept):
                kept = call_plan.beside_others(self, request, key, uris, barred, kept)
            measure = kept.begins()
            self.last = kept
            try:
                if trace is not None or measure:
                    result = self._stepped(kept, request, trace, begin_ns)
                else:
                    result = self._once(kept, request, moves)
                if inspected:
                    self._inspect(kept, request, result, trace)
                return result
            except ways.CopyLost:  # an operand is lost, so no other device can do the work
                self.forget()
                raise
            except FAILURES as error:
                uri = kept.device.uri
                self.failed(uri, error)
                barred[uri] = f"it failed in this call: {error}"
                left = tuple(u for u in left if u != uri)  # without the failed device
                if not left or not may_be_redone(error, out):
                    raise
                key, failure = (left, *key[1:]), error
                log.warning("%s: %s runs on another device: %s", uri, kept.plan.work.op, error)

    def _once(self, kept: KeptPlan, request: Request, moves: bool) -> Any:
        """Runs the plan without measuring."""
        device, uri, out = kept.device, kept.device.uri, request.out
        place = partial(there, uri=uri)
        changed = changed_on(device, request) if request.conversion else None
        if not moves:
            return request.call(device, place, out, changed)
        array: Array = request.call(device, place, there(out, uri), changed)
        self.load.gave(device, kept.compute_s)
        if out is not None:
            out.wrote(uri)
            return out
        return ContextArray(self, uri, array)

    def _stepped(
        self, kept: KeptPlan, request: Request, trace: Trace | None, begin_ns: int
    ) -> Any:  # fmt: skip
        """Runs the plan step by step, for a measurement or a trace. The costs do not learn from a
        traced run.
        """
        if kept.sync and trace is None:
            place = partial(there, uri=kept.device.uri)
            changed = changed_on(kept.device, request) if request.conversion else None
            return self.timed(kept, lambda: request.call(kept.device, place, request.out, changed))
        if not kept.device.info.unified:
            request.check()  # refuses a wrong call before any operand is copied to the device
        watch = Stopwatch(self, trace)
        plan = kept.plan
        predicted_s = {c.device: c.cost.total_s for c in plan.candidates if c.cost}
        watch.decide(
            plan.work.op, begin_ns, device=plan.device, predicted_s=predicted_s,
            size=plan.work.size,
        )  # fmt: skip
        result, measured = timed_steps.run(watch, kept, request)
        if trace is None:
            self._measured(kept, measured)
        else:
            kept.measured = measured
        return result

    def _inspect(
        self, kept: KeptPlan, request: Request, result: Any, trace: Trace | None
    ) -> None:  # fmt: skip
        inspector, task = self.inspector, request.task
        assert inspector is not None
        assert task is not None
        reads = {name: on_host(x) for name, x in request.operands.items()}
        if request.conversion is not None:
            name, change = request.conversion.operand, request.conversion.task
            reads[name] = LAYOUT.on_host(change, reads[name])
        look = partial(request.operation.wrong, task, on_host(result), reads, inspector.chance)
        wrong = Stopwatch(self, trace).check(kept.plan.work.op, kept.device.uri, look)
        if wrong:
            raise WrongResult(
                f"{kept.device.uri}: {kept.plan.work.op} gave a wrong result: {wrong}"
            )

    def timed(self, kept: KeptPlan, run: Callable[[], Any]) -> Any:
        """Runs and measures a call of numpy arrays on a device that shares the host's memory."""
        clock = self.clock_of(kept.device)
        begin = clock()
        result = run()
        self._measured(kept, Measured.of(clock() - begin))
        return result

    def _measured(self, kept: KeptPlan, measured: Measured) -> None:
        work, uri = kept.plan.work, kept.plan.device
        for x in work.operands:
            if x.convert:
                self.tell("ran", x.convert, uri, float(x.nbytes), measured.convert_s)
        seconds = kept.took(measured)
        if seconds is None:
            return
        self.tell("ran", work.op, uri, work.size, seconds)
        kept.ran(self.costs.speeds[work.op, uri].at(work.size))

    def clock_of(self, device: Device) -> Callable[[], float]:
        """Returns the clock for work on this device, in seconds: the device's own, else `clock`."""
        return device.clock or self.clock

    def moved(
        self, array: ContextArray, to: str, wait: ways.Wait = ways.plainly
    ) -> Array:  # fmt: skip
        """Returns a copy of `array` on another device. The copy ends before any work that is
        launched there from now on begins.
        """
        device = self.devices.get(to)
        if device is None:
            raise ValueError(f"device: expected one of {', '.join(self.devices)}, got {to!r}")
        return ways.bring(self, array, device, wait)

    def failed(self, uri: str, error: Exception) -> None:
        """Records that a device failed: it is trusted less, and all calls are decided again.

        Raises as `check_open` does if the Context is closed or the process was forked. The failure
        is then not the device's, and nothing is recorded.
        """
        self.check_open()
        if isinstance(error, FenceTimeout):
            self._hung.add(uri)
        self.health.failed(uri, error)
        self.tell("failed", uri)
        if isinstance(error, DeviceLost):
            self.tell("lost", uri, str(error))
        # All plans are dropped after the costs have changed, because another thread may have stored
        # a plan that was made with the old costs.
        self.forget()

    def hung(self, uris: Sequence[str]) -> dict[str, str]:
        """Returns the devices of `uris` that get no work until they are idle, each with the reason.
        Returns {} if that would exclude all.
        """
        for uri in tuple(self._hung):  # a copy, because another thread may add a URI
            if self.devices[uri].idle:
                self._hung.discard(uri)
        found = {uri: "it hangs: a wait for it timed out" for uri in uris if uri in self._hung}
        return found if len(found) < len(uris) else {}

    def tell(self, call: str, *args: Any) -> None:
        """Calls the method `call` of the costs, and records the call in the journal if there is
        one.
        """
        with self.deciding:
            tell(self.costs, call, args)
            if self.journal is not None:
                self.journal.record_call(call, *args)


def default_clock() -> Callable[[], float]:
    """Returns a monotonic clock, in seconds."""
    return time.perf_counter
