"""Calls `ops` for one task of a graph on one device, and times the call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sparkle_drv import ops
from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.mesh.collective.fluid import LATE
from sparkle_drv.mesh.lanes import runner
from sparkle_drv.mesh.lanes.program import Begun
from sparkle_drv.ops.memory.constant import Constant
from sparkle_drv.sched.decide.kept_plan import FIRST, SAMPLE
from sparkle_drv.sched.graph.place.steps import Bring
from sparkle_drv.sched.model.graph_plan import KeptGraph
from sparkle_drv.sched.model.task import Task
from sparkle_drv.sched.model.work import Measured
from sparkle_drv.sched.run.call_spans import COMPUTE, INTO
from sparkle_drv.sched.run.local import LocalExecutor, WrongResult
from sparkle_drv.sched.run.timed_steps import pending
from sparkle_drv.sched.run.traced_calls import PLAN, VALIDATE
from sparkle_drv.telemetry.trace import Span

from . import task_check

Call = Callable[[], Array]
"""Launches a task and returns its result."""


def run(device: Device, task: Task, reads: Mapping[str, Any], out: Array | None) -> Array:
    """Launches the task. `reads` are on the device, or host arrays that `ops` copies there."""
    if task.op == "gemm":
        made = ops.gemm(
            device, reads["a"], reads["b"], out, bias=_row(reads.get("bias")), **task.options
        )
    elif task.op == "conv2d":
        made = ops.conv2d(
            device, reads["x"], reads["w"], _row(reads.get("bias")), out, **task.options
        )
    elif task.op == "map":
        made = ops.map(device, task.expression, out=out, **reads, **task.numbers)  # type: ignore[arg-type]
    elif task.op == "layout":
        made = ops.layout(device, reads["a"], out=out, **task.options)
    else:
        a = reads["a"] if task.expression is None else _lazy(task, reads)
        made = ops.reduce(device, a, **task.options)
    if isinstance(made, Array):
        return made
    # A reduction of a host array returned its result on the host: copy it to the device.
    return device.array(np.asarray(made))


def _row(bias: Any) -> Any:
    """Returns a bias as a row [n], whichever axis it was along."""
    if isinstance(bias, Constant):
        bias = bias.array("bias", bias.device)
    return bias if bias is None or bias.ndim == 1 else bias.reshape(-1)


def _lazy(task: Task, reads: Mapping[str, Any]) -> Any:
    return ops.lazy(task.expression, **reads, **task.numbers)  # type: ignore[arg-type]


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
        self.in_s = 0.0  # seconds that copies took since the previous task of the run
        self.came: list[Span] = []
        self.decided: Span | None = None
        if self.trace is not None:
            now = time.perf_counter_ns()
            self.decided = self.trace.span(
                PLAN, "graph", now, now, predicted_s=kept.plan.predicted_s, by=kept.plan.by
            )

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
        given = task_check.copies(task, reads)
        made = call()
        begin_ns = time.perf_counter_ns()
        wrong = task_check.wrong(task, made, given, inspector.chance)
        name = " + ".join(task.made_of)
        if self.trace is not None:
            now = time.perf_counter_ns()
            self.trace.span(VALIDATE, name, begin_ns, now, device=uri, wrong=wrong)
        if wrong:
            raise WrongResult(f"{uri}: {name} gave a wrong result: {wrong}")
        return made

    def timed(self, at: int, uri: str, call: Call) -> Array:
        """Runs task `at` of the plan, timed if this run is measured."""
        plan, device = self.kept.plan.tasks[at], self.executor.devices[uri]
        if not self.waits:
            made = call()
            self.executor.load.gave(device, plan.end_s - plan.start_s)
            return made
        clock = self.executor.clock_of(device)
        self.wait(pending(device))
        begin_ns, begin = time.perf_counter_ns(), clock()
        made = call()
        self.wait(made.fence)
        seconds = clock() - begin
        # A result for the host is copied only when the caller reads it. The time of that copy is
        # unknown here, which None means.
        out_s = None if plan.work.out_place else 0.0
        into, self.in_s = self.in_s, 0.0
        self.kept.measured[at] = Measured(into + seconds, seconds, into, out_s, 0.0)
        if self.tells:
            self.executor.tell("ran", plan.work.op, uri, plan.work.size, seconds)
        if self.trace is not None:
            span = self.trace.span(
                (uri, COMPUTE), " + ".join(plan.made_of), begin_ns, time.perf_counter_ns(),
                size=plan.work.size, predicted_s=plan.end_s - plan.start_s,
            )  # fmt: skip
            assert self.decided is not None
            self.trace.flow("decision", self.decided, span)
            for source in self.came:
                self.trace.flow("operand", source, span)
            self.came = []
        return made

    def moving(self, step: Bring, move: Call) -> Array:
        """Runs a step that copies an array to a device, timed if this run is measured."""
        if not self.waits:
            return move()
        device = self.executor.devices[step.uri]
        clock = self.executor.clock_of(device)
        self.wait(pending(device))
        begin_ns, begin = time.perf_counter_ns(), clock()
        made = move()
        self.wait(pending(device))
        self.in_s += clock() - begin
        if self.trace is not None:
            self.came.append(
                self.trace.span(
                    (step.uri, INTO), step.source or "operand", begin_ns, time.perf_counter_ns(),
                    nbytes=step.value.nbytes,
                )
            )  # fmt: skip
        return made
