"""Runs the rungs of a ladder in this process, one after another, each in a thread with a limit.

A call that never returns costs its rung's limit and one thread; the climb goes on. child.py handles
errors that kill the process (SIGBUS of a mapping).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from _bringup.causes.matching import Cause, advise
from _bringup.results.rung import BLOCKED, PASS, SKIP, Result, Rung, Skip, Unmet, failure, unmet

AUTOPSY_S = 10.0


class Bench(Protocol):
    """What a climb needs of the Bench class of each family of devices (benches/)."""

    facts: dict[str, Any]
    causes: Sequence[Cause]

    def begin(self, rung: Rung) -> None: ...

    def settle(self) -> None:
        """Frees what a rung used, after the rung passed. Raises Wrong if the GPU was reset or
        lost memory.
        """

    def recover(self) -> None:
        """Closes everything after a failure, so that the next rung finds a newly opened device."""

    def abandon(self) -> None:
        """Drops all open objects. Does not call the driver, because an earlier call may still hang
        there.
        """

    def autopsy(self, error: BaseException) -> dict[str, Any]: ...

    def close(self) -> None: ...


class Hung(TimeoutError):
    """A rung exceeded its limit inside a call that does not return."""


def bounded(work: Callable[[], Any], limit_s: float) -> Any:
    """Returns the result of `work()`, or raises its exception. Raises Hung if `work()` does not
    return within `limit_s` seconds.

    The exception must not be part of a reference cycle with the frames of its traceback. When the
    garbage collector breaks such a cycle, CPython before 3.12.7 may crash: the frames may hold a
    memoryview of another memoryview (gh-77894).
    """
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((True, work()))
        except BaseException as error:  # passed on to the waiting thread, which raises it
            outcome.append((False, error))

    thread = threading.Thread(target=run, daemon=True, name="rung")
    thread.start()
    thread.join(limit_s)
    if not outcome:
        raise Hung(f"no answer within {limit_s:g} s: a call does not return")
    well, value = outcome.pop()
    if well:
        return value
    try:
        raise value
    finally:  # the traceback refers to this frame: `del` breaks the reference cycle
        del value


def run_rungs(
    rungs: Sequence[Rung], bench: Bench, *, timeout_s: float, before: Sequence[Result] = (),
    begun: Callable[[Rung], None] | None = None,
) -> Iterator[Result]:  # fmt: skip
    """Yields a result for each rung in turn. `before` are the results of rungs that were climbed
    earlier.
    """
    done = list(before)
    for rung in rungs:
        if begun is not None:
            begun(rung)
        missing = unmet(rung, done)
        if missing:
            result = Result(rung.name, BLOCKED, text=f"needs {', '.join(missing)}")
        else:
            result = _one(rung, bench, max(timeout_s, rung.limit_s))
        done.append(result)
        yield result


def _one(rung: Rung, bench: Bench, limit_s: float) -> Result:
    start = time.monotonic()

    def work() -> str:
        bench.begin(rung)
        said = rung.run(bench)
        bench.settle()
        return said

    try:
        said = bounded(work, limit_s)
    except Skip as reason:
        result = Result(rung.name, SKIP, time.monotonic() - start, text=str(reason))
        with contextlib.suppress(Exception):
            bounded(bench.settle, AUTOPSY_S)
        return result
    except Unmet as reason:
        return Result(rung.name, BLOCKED, time.monotonic() - start, text=str(reason))
    except BaseException as error:
        return _failed(rung, bench, error, time.monotonic() - start)
    return Result(rung.name, PASS, time.monotonic() - start, text=said or "")


def _failed(rung: Rung, bench: Bench, error: BaseException, time_s: float) -> Result:
    result = failure(rung, error, time_s)
    if isinstance(error, Hung):
        result.facts["hung"] = True
    try:
        found = bounded(lambda: bench.autopsy(error), AUTOPSY_S)
    except Exception as also:
        found = {"dump": {"dump": f"could not be made: {also}"}}
    result.facts |= found
    if result.ioctl is None and found.get("last_call") and isinstance(error, Hung):
        result.ioctl = found["last_call"]
    advise(bench.causes, result, bench.facts)
    if isinstance(error, Hung):
        bench.abandon()
    else:
        with contextlib.suppress(Exception):
            bounded(bench.recover, AUTOPSY_S)
    return result
