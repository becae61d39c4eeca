"""Measures in a child process, so that the run goes on if a user's kernel crashes or hangs.

The child opens the device, compiles, verifies and times. The parent sends jobs and gets rows,
pickled through a pipe between the two. Before each step the child announces the kernel that the
step uses. The parent then knows how long to wait. After a crash it knows which of several rivals to
leave out when a new child tries the others again. Called by commands/runner.py.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from _bench.jobs.job import Job
from _bench.jobs.roofs import Roof
from _bench.rows.results import Row

from . import bound, engine, meter
from .engine import Settings, Stuck

if TYPE_CHECKING:
    import sparkle_drv as sp

START_S = 60.0  # limit in seconds for imports and for opening the device
# limit in seconds for compiling and loading a kernel: twice the limit of a compiler, because the
# driver may compile, too
LOAD_S = 240.0
SLACK_S = 60.0
LEAVE_S = 2.0
_SPOILED = re.compile(r"(before timing: |after timing: )?(DeviceLost|KernelFault)\b")
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Lost:
    """Says that a child process ended or hung. `kernel` is the name of the kernel that caused this
    ("" if unknown). `what` is a text about what happened.
    """

    kernel: str
    what: str


@dataclass
class Child:
    """A Meter whose device is open in a child process. Closing the Meter ends the child at once."""

    uri: str
    info: sp.DeviceInfo
    settings: Settings
    threshold: float
    _process: subprocess.Popen[bytes] | None = None
    _pipe: Connection | None = None
    _at: str = ""
    _has_begun: bool = False
    _folder: str = field(default="")  # temporary folder for the compilers' output

    def rows(self, job: Job, mode: str) -> list[Row]:
        """Measures the job in the child. Raises the job's own errors, such as a UsageError of its
        reference.
        """
        while not all(one.lost for one in (job, *job.rivals)):
            answer = self._ask("rows", job, mode)
            if not isinstance(answer, Lost):
                found: list[Row] = answer
                if any(_SPOILED.match(row.reason or "") for row in found):
                    self.close()  # the child's device accepts no more work
                return found
            job = _without(job, answer)
        return [engine.lost(one, self.info, mode, self.settings) for one in (job, *job.rivals)]

    def roof(self, complete: bool = False) -> Roof | None:
        answer = self._ask("roof", complete) if self._process else None
        return answer if isinstance(answer, Roof) else None

    def self_test(self) -> dict[str, Any] | None:
        answer = self._ask("self_test")
        return answer if isinstance(answer, dict) else None

    def _ask(self, *request: Any) -> Any:
        """Sends a request. Returns the child's answer, or Lost. Raises the child's exception.

        If the child ended before it began with this request, a new child gets the request.
        """
        was_there, self._at = self._process is not None, ""
        self._has_begun = False
        try:
            pipe = self._started()
            pipe.send(request)
            answer = self._answer(pipe)
        except (EOFError, ConnectionError, pickle.UnpicklingError):
            if was_there and not self._has_begun:
                self.close()
                return self._ask(*request)
            answer = Lost(self._at, self._ending())
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Lost):
            self.close()
        return answer

    def _answer(self, pipe: Connection) -> Any:
        limit: float | None = START_S
        while pipe.poll(limit):
            kind, value = pipe.recv()
            if kind == "answer":
                return value
            self._has_begun = True
            self._at, step = value
            limit = self._limit(step)
        return Lost(self._at, f"hung: no answer in {limit:g} s")

    def _limit(self, step: str) -> float | None:
        """Returns the seconds that the child may take for a step. Returns None, no limit, for the
        step in which a user's reference judges the outputs.
        """
        patience = self.settings.launch_timeout_s
        return {
            bound.LOADS: LOAD_S,
            bound.LAUNCHES: SLACK_S + patience,
            bound.TIMES: SLACK_S + 20 * patience,
            bound.JUDGES: None,
        }[step]

    def _started(self) -> Connection:
        if self._pipe is not None:
            return self._pipe
        self._pipe, theirs = Pipe()
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="sparkle-bench-")
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            f"from _bench.measure import child; child.main({theirs.fileno()})"
        )
        # A kernel's own output goes to stderr, because stdout is for the table. The child gets its
        # own session, so that Ctrl-C reaches only the parent.
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *["-O"] * sys.flags.optimize, "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=_stderr(),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env={**os.environ, "TMPDIR": self._folder},
            )
        self._pipe.send((self.uri, self.settings, self.threshold, logging.getLogger().level))
        return self._pipe

    def _ending(self) -> str:
        if self._process is None:
            return "could not be started"
        try:
            code = self._process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            return "stopped answering"
        if code >= 0:
            return f"ended the process with status {code}"
        try:
            return f"crashed: {signal.Signals(-code).name}"
        except ValueError:
            return f"crashed: signal {-code}"

    def close(self) -> None:
        """Ends the child; further calls do nothing. A busy child is killed, and the compilers that
        it started end with it.
        """
        pipe, process = self._pipe, self._process
        self._pipe = self._process = None
        if pipe is not None:
            pipe.close()
        if process is None:
            return
        process.terminate()
        try:
            process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _stderr() -> int:
    """Returns file descriptor 2, or a substitute if that is closed."""
    try:
        os.fstat(2)
    except OSError:
        return subprocess.DEVNULL
    return 2


def _without(job: Job, lost: Lost) -> Job:
    """Returns the job, in which the kernel that crashed or hung (`lost`) is marked, so that it is
    not run again. If `lost` does not name a kernel, all kernels of the job are marked.
    """
    every = (job, *job.rivals)
    names = {one.kernel for one in every if not one.lost}
    blamed = {lost.kernel} & names or names
    first, *rest = (
        replace(one, lost=lost.what) if one.kernel in blamed and not one.lost else one
        for one in every
    )
    return replace(first, rivals=tuple(rest))


@contextlib.contextmanager
def started(uri: str, info: sp.DeviceInfo, settings: Settings, threshold: float) -> Iterator[Child]:
    """Makes a Child for a device that was found before. The child process starts
    when the Child gets its first job.
    """
    child = Child(uri, info, settings, threshold)
    try:
        yield child
    finally:
        child.close()
        if child._folder:
            shutil.rmtree(child._folder, ignore_errors=True)


def main(descriptor: int) -> None:
    """The child's main loop: answers requests until the parent closes the pipe."""
    pipe = Connection(descriptor)
    uri, settings, threshold, level = pipe.recv()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s")
    bound.announce = lambda kernel, step: pipe.send(("at", (kernel, step)))
    answer: Any
    try:
        with meter.here(uri, settings, threshold) as one:
            # The process ends inside this `with`, by os._exit: closing the device would wait for a
            # kernel that hangs.
            try:
                while True:
                    name, *rest = pipe.recv()
                    pipe.send(("answer", getattr(one, name)(*rest)))
            except EOFError:
                os._exit(0)
            except Stuck as stuck:
                lost = Lost(stuck.row.subject.kernel, stuck.row.reason or "")
                pipe.send(("answer", lost))
                os._exit(1)
    except Exception as error:
        answer = _portable(error)
    pipe.send(("answer", answer))
    os._exit(1)


def _portable(error: Exception) -> Exception:
    """Returns an exception that the parent can unpickle and print."""
    import sparkle_drv as sp

    try:
        copy: Exception = pickle.loads(pickle.dumps(error))
        return copy
    except Exception:  # pickling an exception may raise anything
        return sp.SparkleError(f"{type(error).__name__}: {error}")
