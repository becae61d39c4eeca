"""Calls of a Context and its arrays as spans of a trace, whole: what they consist of, and is worth
a span of its own, is on other tracks (traced.py), and so are calls that are one such thing. Off,
that costs one test.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, TypeVar, cast

from sparkle_drv.telemetry.trace import Trace

CALLS = ("host", "calls")
"""The track."""
TRACE = ("host", "trace")
"""And that of what recording takes."""
COMPUTE, INTO, BACK, MEMORY = "compute", "h2d", "d2h", "memory"
"""Tracks of a device: each of its queues, the ways from the host and back, and taking memory."""

Call = TypeVar("Call", bound=Callable[..., Any])


def call(function: Call) -> Call:
    """A function whose first argument is an executor, or has one as `_executor`: each call is noted
    while that records a trace.
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


def part(trace: Trace, uri: str, queue: str, name: str, **about: Any) -> None:
    """What the call that is going on has done so far was this, on a track of this device."""
    end = time.perf_counter_ns()
    trace.span((uri, queue), name, trace.call_ns, end, **about)
    noting(trace, end)


def noting(trace: Trace, begin_ns: int) -> None:
    """The time since then went into the trace itself."""
    trace.noted.append((TRACE, "note", begin_ns, time.perf_counter_ns()))
