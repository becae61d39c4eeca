"""Stopwatch: times the steps of one run on devices. While a trace is recorded, each step is a span,
with arrows from the spans that it waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from sparkle_drv.core.device import Device
from sparkle_drv.telemetry.trace import Span, Trace

from . import call_spans
from .call_spans import PLAN, noting

if TYPE_CHECKING:
    from .local import LocalExecutor

VALIDATE = ("host", "validate")
"""Track of checks of results."""
IN, CONVERT, COMPUTE, OUT = "in_s", "convert_s", "compute_s", "out_s"
"""Fields of Measured that the time of a step goes to."""
_TRACKS = {IN: call_spans.INTO, OUT: call_spans.BACK, CONVERT: call_spans.COMPUTE,
           COMPUTE: call_spans.COMPUTE}  # fmt: skip
Made = TypeVar("Made")


class Stopwatch:
    """The times of one run so far. `taken` has the seconds of its steps, by IN to OUT."""

    def __init__(self, executor: LocalExecutor, trace: Trace | None = None) -> None:
        self.executor, self.trace = executor, trace
        self.taken = {IN: 0.0, CONVERT: 0.0, COMPUTE: 0.0, OUT: 0.0}
        self._decided: Span | None = None
        self._awaited: list[Span] = []

    def decide(self, name: str, begin_ns: int | None = None, **about: Any) -> None:
        """Records in the trace the decision that the run follows. It was begun at `begin_ns`, by
        default now.
        """
        if self.trace is not None:
            now = time.perf_counter_ns()
            begin_ns = now if begin_ns is None else begin_ns
            self._decided = self.trace.span(PLAN, name, begin_ns, now, **about)
            noting(self.trace, now)

    def step(
        self, device: Device, part: str, name: str, act: Callable[[], Made], **about: Any
    ) -> Made:
        """Runs and times one step, which `act` does to its end. `about` is for the trace."""
        clock = self.executor.clock_of(device)
        begin_ns, begin = time.perf_counter_ns(), clock()
        result = act()
        self.taken[part] += clock() - begin
        if self.trace is not None:
            self._span(self.trace, (device.uri, _TRACKS[part]), name, part, begin_ns, about)
        return result

    def lap(self, part: str) -> float:
        """Returns the seconds of the steps of `part` since the last lap."""
        seconds, self.taken[part] = self.taken[part], 0.0
        return seconds

    def _span(
        self, trace: Trace, track: tuple[str, str], name: str, part: str, begin_ns: int,
        about: dict[str, Any],
    ) -> None:  # fmt: skip
        end = time.perf_counter_ns()
        span = trace.span(track, name, begin_ns, end, **about)
        if part == IN:
            self._awaited.append(span)
        elif part in (CONVERT, COMPUTE):
            for source in self._awaited:
                trace.flow("operand", source, span)
            self._awaited = [span] if part == CONVERT else []
            if part == COMPUTE and self._decided is not None:
                trace.flow("decision", self._decided, span)
        noting(trace, end)

    def check(self, name: str, uri: str, look: Callable[[], str]) -> str:
        """Checks a result by `look`. Returns the description of the error, "" if there is none."""
        begin_ns = time.perf_counter_ns()
        wrong = look()
        if self.trace is not None:
            now = time.perf_counter_ns()
            self.trace.span(VALIDATE, name, begin_ns, now, device=uri, wrong=wrong)
        return wrong
