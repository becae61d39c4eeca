"""A climb in a child process, so that the report is written whatever becomes of it.

The child streams what happens as lines of JSON; when it dies (SIGBUS of a mapping) or is stuck
where no thread can be left behind, the rung under way has failed, and another child goes on behind
it. A child that cannot be killed is left to the kernel. Each child writes a recording of its own.
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

from . import climb
from .causes import advise
from .rung import FAIL, Result, Rung

GRACE_S = 25.0  # beyond a rung's limit, for the dump and for letting go
Tell = Callable[[Result], None]
Record = Callable[[int], AbstractContextManager[object]]


def no_record(child: int) -> AbstractContextManager[object]:
    """Nothing is written down."""
    return nullcontext()


def run(
    rungs: Sequence[Rung], make_bench: Callable[[], Any], *, timeout_s: float, tell: Tell,
    facts: dict[str, Any], record: Record = no_record,
) -> list[Result]:  # fmt: skip
    """All results; `tell` gets each as it comes, `facts` what was learnt of the device. `record`
    makes what the n-th child climbs inside of."""
    done: list[Result] = []
    children = 0
    while len(done) < len(rungs):
        rest = rungs[len(done) :]
        children += 1
        got = _one_child(rest, make_bench, timeout_s, done, tell, facts, record(children))
        if got == 0 and len(done) < len(rungs):
            # Died before it began: the same would happen again.
            break
    return done


def _child(
    rungs: Sequence[Rung], make_bench: Callable[[], Any], timeout_s: float, before: list[Result],
    facts: dict[str, Any], out: int, record: AbstractContextManager[object],
) -> None:  # fmt: skip
    def say(**what: Any) -> None:
        os.write(out, (json.dumps(what, default=str) + "\n").encode())

    with record:
        bench = make_bench()
        bench.facts |= {k: v for k, v in facts.items() if k not in bench.facts}
        climbed = climb.climb(
            rungs, bench, timeout_s=timeout_s, before=before, begun=lambda r: say(begin=r.name)
        )
        for result in climbed:
            say(result=dataclasses.asdict(result), facts=bench.facts)
        say(end=True)
        try:
            climb.bounded(bench.close, climb.AUTOPSY_S)
        except Exception as error:
            say(closing=str(error))


def _one_child(
    rungs: Sequence[Rung], make_bench: Callable[[], Any], timeout_s: float, done: list[Result],
    tell: Tell, facts: dict[str, Any], record: AbstractContextManager[object],
) -> int:  # fmt: skip
    """Climbs in a forked child until it ends, dies or is stuck; how many results it gave."""
    readable, writable = os.pipe()
    with warnings.catch_warnings():
        # Threads of libraries (a BLAS) are told of; none of ours runs yet, and no device is open.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os.close(readable)
        code = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            _child(rungs, make_bench, timeout_s, done, facts, writable, record)
            code = 0
        finally:
            os._exit(code)
    os.close(writable)
    before = len(done)
    begun, since, ended = time.monotonic(), time.monotonic(), False
    rest = b""
    why = ""
    try:
        while not ended:
            rung = rungs[min(len(done) - before, len(rungs) - 1)]
            left = since + max(timeout_s, rung.limit_s) + GRACE_S - time.monotonic()
            if left <= 0 or not select.select([readable], [], [], left)[0]:
                why = f"no answer for {time.monotonic() - begun:.0f} s, its process was ended"
                break
            data = os.read(readable, 1 << 16)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                told = json.loads(line)
                if "begin" in told:
                    since = begun = time.monotonic()
                elif "result" in told:
                    facts |= told["facts"]
                    done.append(Result(**told["result"]))
                    tell(done[-1])
                ended = ended or "end" in told
    finally:
        os.close(readable)
        died = _reap(pid, why != "")
    if not ended and len(done) - before < len(rungs):
        rung = rungs[len(done) - before]
        text = why or f"the process was killed by {died}"
        result = Result(rung.name, FAIL, time.monotonic() - begun, text=text)
        result.facts = {"hung": True} if why else {"died": died}
        bench = make_bench()
        advise(bench.causes, result, {**bench.facts, **facts})
        done.append(result)
        tell(result)
    return len(done) - before


def _reap(pid: int, kill: bool) -> str:
    """Ends the child if it must be; the name of the signal that it died of. Never waits long: a
    process within a call of the kernel's does not die."""
    if kill:
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + GRACE_S
    while time.monotonic() < deadline:
        gone, status = os.waitpid(pid, os.WNOHANG)
        if gone:
            if os.WIFSIGNALED(status):
                return signal.Signals(os.WTERMSIG(status)).name
            return f"exit code {os.WEXITSTATUS(status)}"
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    return "nothing: it does not end"
