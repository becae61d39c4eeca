"""Runs a call of the executor while a trace is recorded: the same plan, step by step
(timed_steps.py), with a span for each step. local.py calls this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sparkle_drv.core.device import Device
from sparkle_drv.telemetry.trace import Span, Trace

from . import call_spans, timed_steps
from .call_spans import BACK, INTO, noting

if TYPE_CHECKING:
    from sparkle_drv.sched.decide.kept_plan import KeptPlan
    from sparkle_drv.sched.model.conversion import Conversion

    from .local import LocalExecutor

PLAN, VALIDATE = ("host", "plan"), ("host", "validate")
"""Tracks of decisions, and of checks of results."""


def run(
    executor: LocalExecutor,
    trace: Trace,
    begin_ns: int,
    kept: KeptPlan,
    operands: Sequence[Any],
    out: Any,
    call: Callable[[Device, Sequence[Any], Any], Any],
    convert: Conversion | None = None,
    whole: bool = False,
) -> Any:
    """Runs the plan as LocalExecutor.run would. The decision for the plan began at `begin_ns`."""
    work = kept.plan.work
    costs = {c.device: c.cost.total_s for c in kept.plan.candidates if c.cost}
    now = time.perf_counter_ns()
    decided = trace.span(
        PLAN, work.op, begin_ns, now, device=kept.device.uri, predicted_s=costs, size=work.size
    )
    noting(trace, now)
    spans = _Spans(executor, kept, trace, decided)
    result, kept.measured = timed_steps.run(spans, operands, out, call, convert, whole)
    return result


def checked(trace: Trace) -> None:
    """Records the time of the current call's argument checks in the trace."""
    trace.noted.append((PLAN, "check", trace.call_ns, time.perf_counter_ns()))


def looked(trace: Trace, kept: KeptPlan, begin_ns: int, wrong: str) -> None:
    """Records the check of a result, begun at `begin_ns`. `wrong` describes the error found, "" if
    none.
    """
    end = time.perf_counter_ns()
    trace.span(VALIDATE, kept.plan.work.op, begin_ns, end, device=kept.device.uri, wrong=wrong)


class _Spans(timed_steps.Steps):
    """Records a span for each step, with arrows from the spans that the step waited for."""

    def __init__(
        self, executor: LocalExecutor, kept: KeptPlan, trace: Trace, decided: Span
    ) -> None:
        super().__init__(executor, kept)
        self.trace, self.decided = trace, decided
        self.came: list[Span] = []
        """Spans that the operation waits for."""

    def step(
        self, part: str, act: Callable[[], timed_steps.Made], nbytes: int = 0
    ) -> timed_steps.Made:
        begin = time.perf_counter_ns()
        made = super().step(part, act, nbytes)
        end = time.perf_counter_ns()
        self._span(part, begin, end, nbytes)
        noting(self.trace, end)
        return made

    def _span(self, part: str, begin: int, end: int, nbytes: int) -> None:
        trace, uri, plan = self.trace, self.kept.device.uri, self.kept.plan
        if part == timed_steps.IN:
            self.came.append(trace.span((uri, INTO), "operand", begin, end, nbytes=nbytes))
            return
        if part == timed_steps.OUT:
            trace.span((uri, BACK), "result", begin, end, nbytes=nbytes)
            return
        cost = plan.candidates[0].cost
        name, size, predicted = plan.work.op, plan.work.size, self.kept.compute_s
        if part == timed_steps.CONVERT:
            name = next(x.convert for x in plan.work.operands if x.convert)
            size, predicted = nbytes, cost.convert_s if cost else 0.0
        track = uri, call_spans.COMPUTE
        span = trace.span(track, name, begin, end, size=size, predicted_s=predicted)
        for source in self.came:
            trace.flow("operand", source, span)
        if part == timed_steps.CONVERT:
            self.came = [span]
        else:
            trace.flow("decision", self.decided, span)
