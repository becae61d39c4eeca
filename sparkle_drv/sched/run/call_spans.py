"""Records spans of a trace for whole calls of a Context and its arrays.

Whole calls have a track of their own in the trace. The parts of a call are on other tracks
(stopwatch.py). A call that has only one part is on the track of that part, too. Without a trace,
a call costs one more `if`.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from sparkle_drv.telemetry.trace import Trace

CALLS = ("host", "calls")
"""Track of whole calls."""
PLAN = ("host", "plan")
"""Track of decisions."""
TRACE = ("host", "trace")
"""Track of the cost of recording."""
COMPUTE, INTO, BACK, MEMORY = "compute", "h2d", "d2h", "memory"
"""Tracks of a device: compute, copies from the host, copies to the host, allocation."""

Call = TypeVar("Call", bound=Callable[..., Any])


def call(function: Call) -> Call:
    """Decorates a function so that each call is recorded while the executor records a trace.

    The first argument of `function` is an executor, or has one as `_executor`.
    """
    name = function.__name__

    @functools.wraps(function)
    def noted(first: Any, /, *args: Any, **named: Any) -> Any:
        trace = getattr(first, "_executor", first).trace
        if trace is None:
            return function(first, *args, **named)
        begin = trace.call_ns = time.perf_counter_ns()
        try:
            return function(first, *args, **named)
        finally:
            trace.noted.append((CALLS, name, begin, time.perf_counter_ns()))

    return cast(Call, noted)


@contextlib.contextmanager
def whole(trace: Trace, name: str) -> Iterator[None]:
    """Records the `with` block as a whole call."""
    begin = trace.call_ns = time.perf_counter_ns()
    try:
        yield
    finally:
        trace.noted.append((CALLS, name, begin, time.perf_counter_ns()))


def part(trace: Trace, uri: str, queue: str, name: str, **about: Any) -> None:
    """Records the time since the current call began as a span on the track (`uri`, `queue`)."""
    end = time.perf_counter_ns()
    trace.span((uri, queue), name, trace.call_ns, end, **about)
    noting(trace, end)


def checked(trace: Trace) -> None:
    """Records the time of the current call's argument checks."""
    trace.noted.append((PLAN, "check", trace.call_ns, time.perf_counter_ns()))


def noting(trace: Trace, begin_ns: int) -> None:
    """Records the time since `begin_ns` as a span "note": the time that recording itself took."""
    trace.noted.append((TRACE, "note", begin_ns, time.perf_counter_ns()))
