"""Records traces and journals of an executor, and writes them to files."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from sparkle_drv import saved_files
from sparkle_drv.sched.journal.journal import Journal
from sparkle_drv.telemetry import chrome
from sparkle_drv.telemetry.trace import Trace

from .local import LocalExecutor


@contextlib.contextmanager
def recorded(executor: LocalExecutor, name: str) -> Iterator[Trace]:
    """Records a trace of the executor inside a `with` block, with the journal as
    `trace.journal`.
    """
    if not isinstance(name, str):
        raise TypeError(f"name: expected a str, got {name!r}")
    executor.check_open()
    trace = Trace(name, time.perf_counter_ns())
    try:
        with executor.deciding:  # the costs must not change while the journal copies them
            before = executor.trace
            if before is not None:
                raise ValueError(f"trace: expected no trace in progress, got {before.name!r}")
            # Later calls are decided again, so that the journal has their decisions.
            executor.forget()
            executor.journal = journal = Journal(executor.costs)
            trace.journal = journal.lines
            trace.begin_ns = time.perf_counter_ns()
            executor.trace = trace
        yield trace
    finally:
        with executor.deciding:  # no other thread may write to the journal now
            if executor.trace is trace:
                trace.end_ns = time.perf_counter_ns()
                executor.trace = executor.journal = None
        trace.settle()


def save(traces: Sequence[Trace], path: str | os.PathLike[str]) -> None:
    """Writes all traces as one trace-event document. If `path` is a file, their journals are
    written one after another to a file beside it.
    """
    name = os.fsdecode(path)
    if not name:
        raise FileNotFoundError(
            errno.ENOENT, "path: expected the name of a file, got an empty name", name
        )
    target = Path(name)
    about = {trace.name: {"covered": round(trace.covered(), 4)} for trace in traces}
    document = json.dumps(chrome.document(traces, about), default=str)
    if saved_files.put(target, document.encode() + b"\n"):
        lines = [line for trace in traces for line in trace.journal]
        beside = target.with_name(target.name + ".journal")
        saved_files.put(beside, "".join(f"{x}\n" for x in lines).encode())
