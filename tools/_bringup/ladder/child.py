"""Climbs in a child process, so that the report is written in any case.

The child sends each result as a line of JSON. It may die (SIGBUS of a mapping), or be stuck in a
call that never returns. Then the current rung has failed, and another child continues with the next
rung. A child that cannot be killed is left alone. Each child writes its own recording. Ctrl-C ends
the child; the results until then are kept.
"""

from __future__ import annotations

import dataclasses
import json
import os
import select
import signal
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from _bringup.causes.matching import advise
from _bringup.results.rung import BLOCKED, FAIL, Result, Rung

from . import runner

# seconds beyond a rung's limit, for dumping the device's state and for closing the device
GRACE_S = 25.0
Tell = Callable[[Result], None]
Record = Callable[[int], AbstractContextManager[object]]


def no_record(child: int) -> AbstractContextManager[object]:
    """Returns a context that records nothing."""
    return nullcontext()


def run(
    rungs: Sequence[Rung], make_bench: Callable[[], Any], *, timeout_s: float, tell: Tell,
    facts: dict[str, Any], record: Record = no_record,
) -> list[Result]:  # fmt: skip
    """Climbs all rungs in child processes and returns the results. `tell` gets each result as it
    comes.

    `facts` gets what was learnt about the device, and "interrupted" or "trouble" (an error outside
    the rungs). `record` gets the number of a child process, from 1, and returns the context manager
    in which that child climbs.
    """
    done: list[Result] = []
    children, began = 0, True
    try:
        while len(done) < len(rungs) and began:
            rest = rungs[len(done) :]
            children += 1
            began = _one_child(rest, make_bench, timeout_s, done, tell, facts, record(children))
    except KeyboardInterrupt:
        facts["interrupted"] = True
    # The rungs that are left were not run. If one child process does not start, another would not
    # either.
    why = "not run: " + ("interrupted" if "interrupted" in facts else "no process begins")
    for rung in rungs[len(done) :]:
        done.append(Result(rung.name, BLOCKED, text=why))
        tell(done[-1])
    return done


def _child(
    rungs: Sequence[Rung], make_bench: Callable[[], Any], timeout_s: float, before: list[Result],
    facts: dict[str, Any], out: int, record: AbstractContextManager[object],
) -> None:  # fmt: skip
    def say(**what: Any) -> None:
        os.write(out, (json.dumps(what, default=str) + "\n").encode())

    try:
        with record:
            _run_rungs(rungs, make_bench(), timeout_s, before, facts, say)
    except Exception as error:
        say(trouble=" ".join(str(error).split()) or type(error).__name__)
        raise


def _run_rungs(
    rungs: Sequence[Rung], bench: Any, timeout_s: float, before: list[Result],
    facts: dict[str, Any], say: Callable[..., None],
) -> None:  # fmt: skip
    bench.facts |= {k: v for k, v in facts.items() if k not in bench.facts}
    climbed = runner.run_rungs(
        rungs, bench, timeout_s=timeout_s, before=before, begun=lambda r: say(begin=r.name)
    )
    for result in climbed:
        say(result=dataclasses.asdict(result), facts=bench.facts)
    say(end=True)
    try:
        runner.bounded(bench.close, runner.AUTOPSY_S)
    except Exception as error:
        say(trouble=f"closing: {error}")


def _one_child(
    rungs: Sequence[Rung], make_bench: Callable[[], Any], timeout_s: float, done: list[Result],
    tell: Tell, facts: dict[str, Any], record: AbstractContextManager[object],
) -> bool:  # fmt: skip
    """Climbs in a forked child until the child ends, dies or is stuck. Returns whether the child
    began a rung.
    """
    readable, writable = os.pipe()
    with warnings.catch_warnings():
        # fork() warns because of threads of libraries (a BLAS). The package has no threads yet, and
        # no device is open.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os.close(readable)
        code = 1
        try:
            # the parent handles Ctrl-C and ends the child
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            _child(rungs, make_bench, timeout_s, done, facts, writable, record)
            code = 0
        finally:
            os._exit(code)
    os.close(writable)
    before = len(done)
    since, began, ended = time.monotonic(), False, False
    rest = b""
    why = trouble = ""
    kill = True
    try:
        while True:
            rung = rungs[min(len(done) - before, len(rungs) - 1)]
            limit = 0.0 if ended else max(timeout_s, rung.limit_s)
            left = since + limit + GRACE_S - time.monotonic()
            if left <= 0 or not select.select([readable], [], [], left)[0]:
                why = f"no answer for {time.monotonic() - since:.0f} s, its process was ended"
                break
            data = os.read(readable, 1 << 16)
            if not data:
                kill = False
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                told = json.loads(line)
                if "begin" in told or "end" in told:
                    since, began, ended = time.monotonic(), True, "end" in told
                elif "result" in told:
                    facts |= told["facts"]
                    done.append(Result(**told["result"]))
                    tell(done[-1])
                elif "trouble" in told:
                    trouble = facts["trouble"] = told["trouble"]
    finally:
        os.close(readable)
        died = _reap(pid, kill)
    if not ended and len(done) - before < len(rungs):
        rung = rungs[len(done) - before]
        result = Result(rung.name, FAIL, time.monotonic() - since, text=why or trouble or died)
        result.facts = {"hung": True} if why else {"died": trouble or died.split()[-1]}
        bench = make_bench()
        advise(bench.causes, result, {**bench.facts, **facts})
        done.append(result)
        tell(result)
    return began


def _reap(pid: int, kill: bool) -> str:
    """Ends the child if needed. Returns in words how it ended. Never waits long, because a process
    inside a system call may not die.
    """
    if kill:
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + GRACE_S
    while time.monotonic() < deadline:
        gone, status = os.waitpid(pid, os.WNOHANG)
        if gone:
            if os.WIFSIGNALED(status):
                name = signal.Signals(os.WTERMSIG(status)).name
                return f"the process was killed by {name}"
            return f"the process ended with exit code {os.WEXITSTATUS(status)}"
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    return "its process does not end"
