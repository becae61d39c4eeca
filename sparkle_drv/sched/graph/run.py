"""Runs a recorded graph once or many times: fuses tasks, places them, moves arrays, launches tasks.

The plan and the memory of intermediate results are kept between runs. The plan is made again when
operands lie on other devices, when a device fails, and when a device's speed has changed. It is
also made again when a scale and a shift that were folded into the old weights cannot be folded into
new ones, or the reverse.

Tasks of one device are launched one after another on its queue, without waits. With several
devices, each device and each direction between two of them is a lane (mesh/lanes/runner.py). The
lane of a direction waits for a result that another device needs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.buffer import Buffer
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.mesh.lanes import runner
from sparkle_drv.mesh.lanes.program import Step
from sparkle_drv.ops.memory.constant import Constant
from sparkle_drv.sched.decide.choose import Lacking, after
from sparkle_drv.sched.graph.fuse.fold import folded
from sparkle_drv.sched.graph.fuse.layouts import cancelled, relaid
from sparkle_drv.sched.graph.fuse.merge import fuse, plain, unused
from sparkle_drv.sched.graph.place.cut import decide_cut
from sparkle_drv.sched.graph.place.plans import Decided, decide
from sparkle_drv.sched.graph.place.steps import Bring, Do
from sparkle_drv.sched.journal.journal import Journal
from sparkle_drv.sched.model.task import Task, Value
from sparkle_drv.sched.operations.table import operation_of
from sparkle_drv.sched.run import ways
from sparkle_drv.sched.run.arrays import ContextArray
from sparkle_drv.sched.run.constants import ContextConstant
from sparkle_drv.sched.run.failures import FAILURES, may_be_redone
from sparkle_drv.sched.run.local import LocalExecutor
from sparkle_drv.sched.run.timed_steps import pending

from . import lanes, rows
from . import task as run_task

log = logging.getLogger("sparkle_drv.sched")

LOOK = 64
"""Runs between two checks of whether the costs behind the plan have changed."""
MOST_PLANS = 16
"""Most plans that a graph keeps, one for each combination of operands' places. When the limit is
reached, all are dropped."""
Folded = dict[str, Any]
"""The operands with a fold in them, by name: numpy arrays, or ContextConstants if all are
constants."""


@dataclass
class _Asked:
    """The answer to whether a fold can be applied to the weights and bias of a product.

    `task` is the product. `found` has the changed weights and bias, or is None if the fold cannot
    be applied.
    """

    task: Task
    found: Folded | None
    constant: bool
    """Whether all operands are constants, so that the answer never changes."""


class GraphRun:
    """A recorded graph, and what its runs keep: the plan, memory, and the last results. `results`
    maps the `Value.number` of each output to its array from the last run.
    """

    def __init__(
        self,
        executor: LocalExecutor,
        uris: tuple[str, ...],
        tasks: Sequence[Task],
        outputs: Sequence[Value],
        given: Mapping[int, Any],
        outs: Mapping[int, Any],
        fuse: bool,
        micro: int | str = 1,
    ) -> None:
        self.executor, self.uris, self.micro = executor, uris, micro
        self.recorded, self.given, self.outs, self.fuse = tuple(tasks), given, outs, fuse
        self.outputs = frozenset(value.number for value in outputs)
        self.results: dict[int, ContextArray] | None = None
        self._choices: list[list[Task]] = []  # equivalent task lists; `decide` picks one
        # By the id() of a Fold: whether it can be applied, and the folded weights and bias.
        self._asked: dict[int, _Asked] = {}
        self._plans: dict[object, tuple[Decided, Journal | None]] = {}
        """For each (devices, places of operands), the plan, and the journal that contains its
        decision."""
        self._now: Decided | None = None  # the plan that memory is reserved for
        self._arenas: dict[str, Buffer] = {}
        # Intermediate results by (`number` of their Value, URI). They are parts of `_arenas`, which
        # has a buffer for each device.
        self._held: dict[tuple[int, str], Array] = {}
        # Its attribute `uri` is the device that the current thread called last (see `_at`).
        self._asking = threading.local()

    def run(self) -> dict[int, ContextArray]:
        """Runs all tasks. Returns the outputs by the number of their Value. Raises as TaskGraph.run
        does.
        """
        hung = self.executor.hung(self.uris)
        uris = tuple(uri for uri in self.uris if uri not in hung)
        self._look_at_arrays()
        failure: Exception | None = None
        while True:
            self._fuse()
            try:
                with after(failure):
                    plan = self._plan(uris)
                self.results = self._once(plan)
                return self.results
            except FAILURES as error:
                self.forget()
                if isinstance(error, ways.CopyLost) or self._at not in uris:
                    raise  # no computing device is at fault, so no other device would help
                self.executor.failed(self._at, error)
                uris = tuple(uri for uri in uris if uri != self._at)  # without the failed device
                if not uris or not all(may_be_redone(error, x) for x in self.outs.values()):
                    raise
                failure = error
                log.warning("%s: the graph runs again on other devices: %s", self._at, error)
            except BaseException:
                self.forget()  # drops the plan: an abandoned transfer may still write to its memory
                raise

    @property
    def _at(self) -> str:
        """The device that this thread is calling."""
        return getattr(self._asking, "uri", "")

    @_at.setter
    def _at(self, uri: str) -> None:
        self._asking.uri = uri

    def forget(self) -> None:
        """Releases the plan and its memory."""
        self._plans, self._now = {}, None
        self._free()

    def _free(self) -> None:
        for array in self._held.values():
            array.close()
        for arena in self._arenas.values():
            arena.close()
        self._held, self._arenas = {}, {}

    def let_go(self) -> None:
        """Releases the plan, its memory and the kept results. Results that the caller holds stay
        valid.
        """
        self.forget()
        self.results = None
        self._asked = {}

    def _look_at_arrays(self) -> None:
        for what, arrays in (("operand", self.given), ("out", self.outs)):
            for number, x in arrays.items():
                if not isinstance(x, np.ndarray) and x.closed:
                    raise ValueError(
                        f"run: expected an open {what}, got a closed one: {x!r}, array {number}"
                    )

    def _fuse(self) -> None:
        """Merges tasks. Does so again if other weights now allow a fold that they did not allow
        before, or the reverse.
        """
        if not self.fuse:
            self._choices = self._choices or [plain(self.recorded, self.outputs)]
            return
        changed = not self._choices
        for asked in self._asked.values():
            if not asked.constant:
                before, asked.found = asked.found, folded(asked.task, self.given)
                changed = changed or (before is None) != (asked.found is None)
        if changed:
            self.forget()
            self._asked = {}
            self._choices = self._fused()

    def _fused(self) -> list[list[Task]]:
        """Returns equivalent task lists. The last has the changes of layout as recorded, without
        those that cancel. If a list with fewer changes exists, it comes first.
        """
        tasks = cancelled(plain(self.recorded, self.outputs), self.outputs)
        free = unused(self.recorded)
        choices = [fuse(tasks, self.outputs, self._holds, free)]
        fewer = relaid(choices[0], self.outputs, max(free, unused(choices[0])))
        if fewer is not None:
            choices.insert(0, fuse(fewer, self.outputs, self._holds, max(free, unused(fewer))))
        return choices

    def _holds(self, task: Task) -> bool:
        assert task.fold is not None
        changed = (value for name, value in task.reads.items() if name in task.folded)
        read = [*task.fold.reads.values(), *changed]
        found: Folded | None = folded(task, self.given)
        constant = all(v.constant for v in read)
        if constant and found is not None:
            found = {name: ContextConstant(self.executor, x) for name, x in found.items()}
        self._asked[id(task.fold)] = _Asked(task, found, constant)
        return found is not None

    def _plan(self, uris: tuple[str, ...]) -> Decided:
        """Returns the plan for this run, with memory reserved for it."""
        moved = ContextArray, ContextConstant
        key = uris, tuple(x.places for x in self.given.values() if isinstance(x, moved))
        known = self._plans.get(key)
        if known is None or self._outdated(*known, uris):
            journal = self.executor.journal
            try:
                decided = self._decided(uris, self._choices)
            except Lacking:  # no device can do a merged task: plan the unmerged tasks instead
                decided = self._decided(uris, [plain(self.recorded, self.outputs)])
            known = decided, journal
            if not decided.kept.plan.explores:  # the plan of a trial is used once and not stored
                if len(self._plans) >= MOST_PLANS:
                    self._plans.clear()
                self._plans[key] = known
        decided, _ = known
        if self._now is None or decided.steps != self._now.steps:
            self._now = None
            self._free()
            self._reserve(decided)
        self._now = decided
        return decided

    def _decided(self, uris: tuple[str, ...], choices: list[list[Task]]) -> Decided:
        what = self.executor, uris, choices, self.outputs, self.given, self.outs
        return decide(*what) if self.micro == 1 else decide_cut(*what, self.micro)

    def _outdated(self, known: Decided, journal: Journal | None, uris: tuple[str, ...]) -> bool:
        """Returns whether to place the graph again: for a new journal, which must contain the
        decision, and if `known` is outdated. The latter is tested only in one of LOOK runs.
        """
        if self.executor.journal not in (None, journal):
            return True
        due = known.kept.runs % LOOK == LOOK - 1
        return due and known.outdated(self.executor.costs, uris)

    def _reserve(self, decided: Decided) -> None:
        """Allocates memory for intermediate results, and an Array for each of them."""
        devices = self.executor.devices
        for uri, memory in decided.steps.memory.items():
            self._at = uri
            self._arenas[uri] = devices[uri].buffer(memory.peak_nbytes)
        for (number, uri), offset in decided.steps.offsets.items():
            value = decided.steps.values[number]
            piece = self._arenas[uri].view(offset, value.nbytes)
            self._held[number, uri] = piece.array(value.dtype, value.shape, value.layout)

    def _once(self, decided: Decided) -> dict[int, ContextArray]:
        executor, kept = self.executor, decided.kept
        kept.runs += 1
        executor.last = kept
        watch = run_task.Watch(executor, kept)
        now: dict[tuple[int, str], Any] = {}
        results: dict[int, ContextArray] = {}
        tasks = (step.task for step in decided.steps.steps if isinstance(step, Do))
        order = {task: at for at, task in enumerate(tasks)}
        joined = rows.Joined(kept.plan.micro.extent if kept.plan.micro else 0, self._wanted)
        before = {uri: pending(device) for uri, device in executor.devices.items()}
        begun: dict[int, Fence] = {}

        def begin(number: int, after: Sequence[int] | None = None) -> None:
            step = decided.steps.steps[number]
            device = executor.devices[step.uri]
            self._at = step.uri
            if isinstance(step, Bring):
                # This step fills memory that other users may still need: earlier runs, and the
                # steps whose numbers are in `after`.
                users = [pending(device)] if after is None else [before[step.uri]]
                users += [begun[n] for n in after or () if begun[n].queue is device.default_queue]
                free = partial(watch.wait, max(users))
                brought = partial(self._brought, step, now, watch, free)
                now[step.value.number, step.uri] = watch.moving(step, brought)
            else:
                task = decided.tasks[step.task]
                output = task.out.whole in self.outputs
                if output and task.out.part:
                    target = joined.target(task, device)
                else:
                    target = self._target(task, device)
                made = self._done(task, step, now, watch, order[step.task], target)
                now[task.out.number, step.uri] = made
                whole = joined.with_part(task.out, made) if output and task.out.part else made
                if output and whole is not None:
                    given = self._delivered(task.out.whole, step.uri, whole, watch)
                    results[task.out.whole] = given
            begun[number] = pending(device)

        if self._in_lanes(decided, watch):
            watch.stopped = threading.Event()
            self._run_lanes(decided, begin, watch.stopped)
        else:
            for number in range(len(decided.steps.steps)):
                begin(number)
        return results

    def _in_lanes(self, decided: Decided, watch: run_task.Watch) -> bool:
        """Returns whether devices run in threads of their own. Otherwise this thread submits all
        tasks.

        Threads serve only plans in which a copy may take long. They do not run while tasks are
        timed one by one. They do not run either if the graph writes an `out` of the caller, since
        other tasks may read that array.
        """
        steps, devices = decided.steps.steps, self.executor.devices
        several = len({step.uri for step in steps}) > 1
        waits = any(
            isinstance(step, Bring)
            and not (step.value.kind == "numpy" and devices[step.uri].info.unified)
            for step in steps
        )
        return several and waits and not (watch.waits or self.executor.inspector or self.outs)

    def _run_lanes(
        self, decided: Decided, begin: Callable[[int, Sequence[int]], None],
        stopped: threading.Event,
    ) -> None:  # fmt: skip
        """Runs each device and each direction between devices as a lane. A lane submits tasks, but
        does not wait until they end.
        """
        # The device of each error, by the error's id; several devices may fail together.
        blamed: dict[int, str] = {}

        def act(step: Step) -> None:
            try:
                begin(step.number, step.after)
            except BaseException as error:
                blamed[id(error)] = self._at
                raise

        try:
            there = {step.uri for step in decided.steps.steps}
            devices = [self.executor.devices[uri] for uri in sorted(there)]
            clocked = runner.clocked(devices, self.executor.clock)
            runner.run(lanes.program(decided.tasks, decided.steps), act, stopped=stopped, **clocked)
        except BaseException as error:
            self._at = blamed.get(id(error), self._at)
            raise

    def _brought(
        self, step: Bring, now: Mapping[tuple[int, str], Any], watch: run_task.Watch,
        free: Callable[[], None],
    ) -> Any:  # fmt: skip
        """Returns the operand of a step as an Array or Constant on the target device. Before memory
        is filled, `free` is called, which waits for earlier users of that memory.
        """
        value, uri = step.value, step.uri
        device = self.executor.devices[uri]
        if step.source:
            return self._from(
                now[value.number, step.source], self._held[value.number, uri], watch, free
            )
        x = self.given[value.whole]
        if value.kind == "context":
            there = x.on(uri) if isinstance(x, ContextConstant) else x._on(uri, watch.until)
            return rows.of(there, value)
        if value.kind == "constant":
            return x.on(uri)
        x = rows.of(x, value)
        if value.kind == uri:
            return x
        if isinstance(x, Constant):
            x = x.array("operand", x.device)
        if isinstance(x, Array):
            return self._from(x, self._held[value.number, uri], watch, free)
        return _written(device, self._held[value.number, uri], x)

    def _from(
        self, source: Array, target: Array, watch: run_task.Watch, free: Callable[[], None]
    ) -> Array:
        """Fills `target` with the elements of `source` on another device. Returns `target`."""
        if target.nbytes:
            free()
            asks = partial(setattr, self, "_at")
            ways.fill(self.executor.ways, target, source, asks, watch.until)
        self._at = target.device.uri
        return target

    def _done(
        self, task: Task, step: Do, now: Mapping[tuple[int, str], Any], watch: run_task.Watch,
        at: int, target: Array | None,
    ) -> Array:  # fmt: skip
        device = self.executor.devices[step.uri]
        reads: dict[str, Any] = {}
        for name, value in task.reads.items():
            there = now.get((value.number, step.uri))
            reads[name] = rows.of(self.given[value.whole], value) if there is None else there
        if task.fold is not None:
            found = self._asked[id(task.fold)].found
            assert found is not None
            reads.update(found)
        reads = {
            n: x.on(step.uri) if isinstance(x, ContextConstant) else x for n, x in reads.items()
        }
        launch = partial(run_task.run, device, task, reads, target)
        timed = partial(watch.timed, at, step.uri, launch)
        return watch.looked(task, step.uri, reads, timed)

    def _target(self, task: Task, device: Device) -> Array | None:
        """Returns the array that a result is written to, or None if ops makes it."""
        wanted = self._wanted(task.out.number, device)
        if wanted is not None:
            return wanted
        held = self._held.get((task.out.number, device.uri))
        if held is not None or operation_of(task).reduces:
            return held
        return device.empty(task.out.shape, task.out.dtype, task.out.layout)

    def _wanted(self, number: int, device: Device) -> Array | None:
        """Returns the caller's `out` for a result if this device can write to it, otherwise
        None.
        """
        out = self.outs.get(number)
        if isinstance(out, ContextArray):
            return out._read(device.uri)
        return out if isinstance(out, Array) and out.device is device else None

    def _delivered(
        self, number: int, uri: str, array: Array, watch: run_task.Watch
    ) -> ContextArray:
        """Returns an output as a ContextArray, and fills the caller's `out`."""
        out = self.outs.get(number)
        if isinstance(out, ContextArray):
            out.wrote(uri)
            return out
        if isinstance(out, np.ndarray):
            out[...] = array.numpy()
        elif isinstance(out, Array) and out is not array:
            self._from(array, out, watch, partial(watch.wait, pending(out.device)))
        return ContextArray(self.executor, uri, array)


def _written(device: Device, target: Array, host: Any) -> Array:
    """Queues a copy of `host` to `target` and returns `target`. `host` may change afterwards."""
    if target.nbytes:
        plain = np.ascontiguousarray(host).reshape(-1).view(np.uint8)
        target.fence = device.default_queue.write(target.buffer, plain)
    return target
