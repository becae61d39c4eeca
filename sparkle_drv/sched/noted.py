"""Calls of a Context and its arrays as spans of a trace, whole: what they consist of, and is worth
a span of its own, is on other tracks (traced.py). Off, that costs one test.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, TypeVar, cast

CALLS = ("host", "calls")
"""The track."""

Call = TypeVar("Call", bound=Callable[..., Any])


def call(function: Call) -> Call:
    """A function whose first argument is an executor, or has one as `_executor`: each call is noted
    while that records a trace.
    """
    name = function.__name__

    @functools.wraps(function)
    def noting(first: Any, *args: Any, **named: Any) -> Any:
        trace = getattr(first, "_executor", first).trace
        if trace is None:
            return function(first, *args, **named)
        begin = time.perf_counter_ns()
        try:
            return function(first, *args, **named)
        finally:
            trace.noted.append((CALLS, name, begin, time.perf_counter_ns()))

    return cast(Call, noting)
