"""Runs a recorded graph: fuses, places, moves and runs it, and again. What acts, beside local.py.

The plan is kept between runs, as are the memory of intermediate results and copies of operands that
do not change; it is made anew when operands are in other places, when weights no longer take what
was folded into them, when a device fails, and when devices have become faster or slower. Tasks of
one device are launched one after another on its queue without a wait; a result that another device
reads is waited for and brought there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.buffer import Buffer
from sparkle_drv.core.device import Device
from sparkle_drv.errors import DeviceLost, KernelFault, OutOfDeviceMemory
from sparkle_drv.ops import staging

from ..arrays import ContextArray
from ..journal import Journal
from ..local import CopyLost, LocalExecutor
from . import place as graph_place
from . import task as run_task
from .data import Task, Value
from .decide import Decided, decide
from .fold import Host, folded
from .fuse import fuse, plain
from .steps import Bring, Do

LOOK = 64
"""Runs after which it is looked at whether devices have become faster or slower."""
Folded = tuple[Host, "Host | None"]

LOOK = 64
"""Once in so many runs it is looked at whether the costs that decided have changed."""


@dataclass
class _Asked:
    """A fold that fusing asked about, and what the answer was."""

    task: Task
    found: Folded | None
    settled: bool
    """Will the answer be the same for ever?"""


class GraphRun:
    """A graph that is complete. `results` has the outputs of the last run by number."""

    def __init__(
        self,
        executor: LocalExecutor,
        uris: tuple[str, ...],
        tasks: Sequence[Task],
        outputs: Sequence[Value],
        given: Mapping[int, Any],
        outs: Mapping[int, Any],
        fuse: bool,
    ) -> None:
        self.executor, self.uris = executor, uris
        self.recorded, self.given, self.outs, self.fuse = tuple(tasks), given, outs, fuse
        self.outputs = frozenset(value.number for value in outputs)
        self.results: dict[int, ContextArray] | None = None
        self._tasks: list[Task] = []
        self._asked: dict[int, _Asked] = {}  # by the id of the fold
        self._decided: Decided | None = None
        self._key: object = None
        self._journal: Journal | None = None  # where the decision stands
        self._arenas: dict[str, Buffer] = {}
        self._held: dict[tuple[int, str], Array] = {}  # where arenas and kept operands have values
        self._at = ""  # the device that is being asked for something

    def run(self) -> dict[int, ContextArray]:
        """Do all tasks; the outputs by number. Raises as TaskGraph.run."""
        uris = self.uris
        self._look_at_operands()
        while True:
            self._fuse()
            try:
                self.results = self._once(self._plan(uris))
                return self.results
            except CopyLost:  # not the fault of the device that was to do the work
                self.forget()
                raise
            except (DeviceLost, KernelFault, OutOfDeviceMemory) as error:
                self.forget()
                if self._at not in uris:
                    raise
                self.executor.failed(self._at, error)
                uris = tuple(uri for uri in uris if uri != self._at)  # not twice for one run
                if not uris:
                    raise

    def forget(self) -> None:
        """Let go of the plan and its memory."""
        self._decided, self._key = None, None
        for array in self._held.values():
            array.close()
        for arena in self._arenas.values():
            arena.close()
        self._held, self._arenas = {}, {}

    def let_go(self) -> None:
        """Of everything but the results, which are their holder's."""
        self.forget()
        self.results = None
        self._asked = {}

    def _look_at_operands(self) -> None:
        for number, x in self.given.items():
            if not isinstance(x, np.ndarray) and x.closed:
                raise ValueError(f"run: an operand of the graph is closed: {x!r}, array {number}")

    def _fuse(self) -> None:
        """What becomes one task, with the weights as they are now."""
        if not self.fuse:
            self._tasks = self._tasks or plain(self.recorded, self.outputs)
            return
        changed = not self._tasks
        for asked in self._asked.values():
            if not asked.settled:
                before, asked.found = asked.found, folded(asked.task, self.given)
                changed = changed or (before is None) != (asked.found is None)
        if changed:
            self.forget()
            self._asked = {}
            self._tasks = fuse(self.recorded, self.outputs, self._holds)

    def _holds(self, task: Task) -> bool:
        assert task.fold is not None
        read = [*task.fold.reads.values(), *(task.reads[n] for n in run_task.folded_names(task))]
        found = folded(task, self.given)
        self._asked[id(task.fold)] = _Asked(task, found, all(v.settled for v in read))
        return found is not None

    def _plan(self, uris: tuple[str, ...]) -> Decided:
        places = tuple(x.places for x in self.given.values() if isinstance(x, ContextArray))
        known = self._decided
        if known is None or self._key != (uris, places) or self._outdated(known):
            self._key, self._journal = None, self.executor.journal
            there = {key for key in self._held if key[0] in self.given}
            made = decide(
                self.executor, uris, self._tasks, self.outputs, self.given, self.outs, there
            )
            if known is None or made.steps != known.steps:
                self.forget()
                self._reserve(made)
            known = self._decided = made
            self._key = (
                uris,
                tuple(x.places for x in self.given.values() if isinstance(x, ContextArray)),
            )
        return known

    def _outdated(self, known: Decided) -> bool:
        """Have costs changed, which is looked at now and then, or is there a journal, which wants
        to have what is decided?
        """
        if self.executor.journal not in (None, self._journal):
            return True
        plan = known.kept.plan
        due = known.kept.runs % LOOK == LOOK - 1
        return due and graph_place.changed(self.executor.costs, plan.tasks)

    def _reserve(self, made: Decided) -> None:
        """Memory for intermediate results, and an Array for each of them."""
        devices = self.executor.devices
        for uri, memory in made.steps.memory.items():
            self._at = uri
            self._arenas[uri] = devices[uri].buffer(memory.peak_nbytes)
        for (number, uri), offset in made.steps.offsets.items():
            value = made.steps.values[number]
            piece = self._arenas[uri].view(offset, value.nbytes)
            self._held[number, uri] = piece.array(value.dtype, value.shape, value.layout)

    def _once(self, decided: Decided) -> dict[int, ContextArray]:
        executor, kept = self.executor, decided.kept
        kept.runs += 1
        executor.last = kept
        watch = run_task.Watch(executor, kept)
        now: dict[tuple[int, str], Array] = {}
        results: dict[int, ContextArray] = {}
        done = 0
        for step in decided.steps.steps:
            self._at = step.uri
            if isinstance(step, Bring):
                with watch.moving(step):
                    now[step.value.number, step.uri] = self._brought(step, now)
                continue
            task = self._tasks[step.task]
            made = self._done(task, step, now, watch, done)
            done += 1
            now[task.out.number, step.uri] = made
            if task.out.number in self.outputs:
                results[task.out.number] = self._delivered(task.out, step.uri, made)
        return results

    def _brought(self, step: Bring, now: Mapping[tuple[int, str], Array]) -> Array:
        value, uri = step.value, step.uri
        device = self.executor.devices[uri]
        if step.source:
            self._at = step.source
            source = now[value.number, step.source]
            host = _host(source)
            self._at = uri
            return _written(device, self._held[value.number, uri], host)
        x = self.given[value.number]
        if value.kind == "context":
            found: Array = x.on(uri)
            return found
        if value.kind == uri:
            there: Array = x
            return there
        if value.settled:
            kept = self._held.get((value.number, uri))
            if kept is None:
                kept = self._held[value.number, uri] = device.array(x, value.layout)
            return kept
        if isinstance(x, Array):
            self._at = value.kind
            x = _host(x)
            self._at = uri
        return _written(device, self._held[value.number, uri], x)

    def _done(
        self, task: Task, step: Do, now: Mapping[tuple[int, str], Array], watch: run_task.Watch,
        at: int,
    ) -> Array:  # fmt: skip
        device = self.executor.devices[step.uri]
        reads: dict[str, Any] = {}
        for name, value in task.reads.items():
            there = now.get((value.number, step.uri))
            reads[name] = self.given[value.number] if there is None else there
        if task.fold is not None:
            found = self._asked[id(task.fold)].found
            assert found is not None
            reads.update(zip(run_task.folded_names(task, all=True), found, strict=True))
        target = self._target(task, device)
        launch = partial(run_task.run, device, task, reads, target)
        timed = partial(watch.timed, at, step.uri, launch)
        return watch.looked(task, step.uri, reads, timed)

    def _target(self, task: Task, device: Device) -> Array | None:
        """Where a result goes; None: ops makes the array."""
        out = self.outs.get(task.out.number)
        if isinstance(out, ContextArray):
            return out.on(device.uri)
        if isinstance(out, Array) and out.device is device:
            return out
        held = self._held.get((task.out.number, device.uri))
        if held is not None or task.op == "reduce":
            return held
        return device.empty(task.out.shape, task.out.dtype, task.out.layout)

    def _delivered(self, value: Value, uri: str, made: Array) -> ContextArray:
        """An output as its reader wants it; what was given as `out` has it, too."""
        out = self.outs.get(value.number)
        if isinstance(out, ContextArray):
            out.wrote(uri)
            return out
        if isinstance(out, np.ndarray):
            out[...] = _host(made)
        elif isinstance(out, Array) and out is not made:
            host = _host(made)
            self._at = out.device.uri
            _written(out.device, out, host)
        return ContextArray(self.executor, uri, made)


def _host(array: Array) -> Host:
    """What it holds when all that was launched has run, without keeping it."""
    if array.fence is not None:
        array.fence.wait(staging.WAIT_S)
    return array.numpy()


def _written(device: Device, target: Array, host: Any) -> Array:
    """`target` with the elements of `host`, behind what its queue has now; `host` may change."""
    if target.nbytes:
        plain = np.ascontiguousarray(host).reshape(-1).view(np.uint8)
        target.fence = device.default_queue.write(target.buffer, plain)
    return target
