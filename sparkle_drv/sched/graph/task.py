"""Calls `ops` for one task of a graph on one device, and times the call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.mesh.collective.fluid import LATE
from sparkle_drv.mesh.lanes import runner
from sparkle_drv.mesh.lanes.program import Begun
from sparkle_drv.sched.decide.kept_plan import FIRST, SAMPLE
from sparkle_drv.sched.graph.place.steps import Bring
from sparkle_drv.sched.model.graph_plan import KeptGraph
from sparkle_drv.sched.model.task import Task
from sparkle_drv.sched.model.work import Measured
from sparkle_drv.sched.operations.table import operation_of
from sparkle_drv.sched.run.failures import WrongResult
from sparkle_drv.sched.run.local import LocalExecutor
from sparkle_drv.sched.run.stopwatch import COMPUTE, IN, Stopwatch
from sparkle_drv.sched.run.timed_steps import pending

Call = Callable[[], Array]
"""Launches a task and returns its result."""


def run(device: Device, task: Task, reads: Mapping[str, Any], out: Array | None) -> Array:
    """Launches the task. `reads` are on the device, or host arrays that `ops` copies there."""
    result = operation_of(task).launch(device, task, reads, out)
    if isinstance(result, Array):
        return result
    # A task of host arrays alone may return its result on the host: copy it to the device.
    return device.array(np.asarray(result))


def copies(reads: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Returns copies of the operands of a task, after a wait for the work that computes them.

    The copies are made before the task runs, because the task may overwrite an operand.
    """
    copied = {}
    for name, x in reads.items():
        if isinstance(x, Array) and x.fence is not None:
            x.fence.wait()
        copied[name] = np.array(x.numpy() if isinstance(x, Array) else x)
    return copied


class Watch:
    """Measures the times of one run of a graph. If the run is measured or traced, the Watch waits
    for the end of each task.
    """

    def __init__(self, executor: LocalExecutor, kept: KeptGraph) -> None:
        self.executor, self.kept, self.trace = executor, kept, executor.trace
        sampled = 1 < kept.runs <= 1 + FIRST or kept.runs % SAMPLE == 0
        self.waits = sampled or self.trace is not None
        # Whether this run's times go to the cost model. Those of the first run do not, since it
        # allocates and compiles.
        self.tells = sampled
        self.limit_s = LATE * kept.plan.predicted_s
        """Seconds that each wait may take beyond its device's `timeout_s`."""
        self.stopped: threading.Event | None = None
        """For a run in lanes: set when the caller was interrupted. None without lanes."""
        self.clocked = Stopwatch(executor, self.trace)
        self.clocked.decide("graph", predicted_s=kept.plan.predicted_s, by=kept.plan.by)

    def wait(self, fence: Fence | None) -> None:
        """Waits for the fence of a task or transfer of this run. Raises as Fence.wait does.

        Without a fence it returns at once.
        """
        if fence is not None:
            self.until(fence, fence.queue.timeout_s)

    def until(self, begun: Begun, timeout_s: float) -> None:
        """Waits until `begun`, a task or transfer of this run, ends.

        The wait takes at most `timeout_s` plus the run's `limit_s`.

        Raises as `begun.wait` does, and runner.Stopped if the caller was interrupted.
        """
        if self.stopped is None:
            begun.wait(timeout_s + self.limit_s)
        else:
            runner.wait(begun, timeout_s + self.limit_s, self.stopped)

    def looked(self, task: Task, uri: str, reads: Mapping[str, Any], call: Call) -> Array:
        """Runs a task and checks its result if a check is due. Raises WrongResult if the result is
        wrong.
        """
        inspector = self.executor.inspector
        if inspector is None or not inspector.due():
            return call()
        operands = copies(reads)
        result = call()
        if result.fence is not None:
            result.fence.wait()
        name = " + ".join(task.made_of)
        look = partial(operation_of(task).wrong, task, result.numpy(), operands, inspector.chance)
        wrong = self.clocked.check(name, uri, look)
        if wrong:
            raise WrongResult(f"{uri}: {name} gave a wrong result: {wrong}")
        return result

    def timed(self, at: int, uri: str, call: Call) -> Array:
        """Runs task `at` of the plan, timed if this run is measured."""
        plan, device = self.kept.plan.tasks[at], self.executor.devices[uri]
        if not self.waits:
            result = call()
            self.executor.load.gave(device, plan.end_s - plan.start_s)
            return result
        self.wait(pending(device))
        result = self.clocked.step(
            device, COMPUTE, " + ".join(plan.made_of), lambda: self._ended(call()),
            size=plan.work.size, predicted_s=plan.end_s - plan.start_s,
        )  # fmt: skip
        # A result for the host is copied only when the caller reads it. The time of that copy is
        # unknown here, which None means.
        out_s = None if plan.work.out_place else 0.0
        into, seconds = self.clocked.lap(IN), self.clocked.lap(COMPUTE)
        self.kept.measured[at] = Measured(into + seconds, seconds, into, out_s, 0.0)
        if self.tells:
            self.executor.tell("ran", plan.work.op, uri, plan.work.size, seconds)
        return result

    def _ended(self, made: Array) -> Array:
        self.wait(made.fence)
        return made

    def moving(self, step: Bring, move: Call) -> Array:
        """Runs a step that copies an array to a device, timed if this run is measured."""
        if not self.waits:
            return move()
        device = self.executor.devices[step.uri]
        self.wait(pending(device))

        def moved() -> Array:
            made = move()
            self.wait(pending(device))
            return made

        name = step.source or "operand"
        return self.clocked.step(device, IN, name, moved, nbytes=step.value.nbytes)
