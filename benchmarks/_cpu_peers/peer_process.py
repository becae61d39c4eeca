"""Starts and controls a peer's process: sends it requests, and after each answer waits until all of
its threads sleep.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import NAMES

HERE = Path(__file__).resolve().parent
ANSWER_S = 30.0
"""Limit of one request, in seconds."""
SLEEP_S = 0.3
"""Seconds to wait until a peer's thread pool sleeps, because some pools spin for a while."""


class Lost(Exception):
    """Says that a peer's process died or did not answer. The text is the reason."""


def interpreter(name: str) -> str:
    """Returns the path of the Python that runs a peer: the one in build/peers after `make peers`,
    otherwise the one that runs this script.
    """
    made = HERE.parents[1] / "build" / "peers" / "bin" / "python"
    return str(made) if name in NAMES[1:] and made.exists() else sys.executable


@contextlib.contextmanager
def pinned(cpus: Sequence[int]) -> Iterator[None]:
    """Makes processes that start inside this context run on `cpus` alone, with all
    their threads.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class PeerProcess:
    """The process of one peer with one number of threads, pinned to `cpus`. Methods raise Lost if
    the process has died or does not answer.
    """

    def __init__(
        self, name: str, threads: int, cpus: Sequence[int], env: Mapping[str, str], folder: Path
    ) -> None:
        self.name, self.threads = name, threads
        command = [interpreter(name), "-m", "_cpu_peers.child", name, str(threads)]
        self._log = (folder / f"{name}.{threads}.log").open("ab")
        with pinned(cpus):
            self._child = subprocess.Popen(
                command, env=dict(env), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=self._log, start_new_session=True,
            )  # fmt: skip
        self._read = b""
        try:
            first = self._answer()
        except Lost:
            self.close()
            raise
        self.version: str = first.get("version", "")
        self.absent: str = first.get("absent", "")

    @property
    def alive(self) -> bool:
        return self._child.poll() is None

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """Sends a request and returns the answer. When this method returns, the child process is
        asleep.
        """
        assert self._child.stdin is not None
        if self._child.stdin.closed:
            raise Lost("the process of the peer ended before this request")
        try:
            self._child.stdin.write(json.dumps({"do": do, **request}).encode() + b"\n")
            self._child.stdin.flush()
        except OSError:
            raise Lost(self._end()) from None
        answer = self._answer()
        self._settle()
        return answer

    def _answer(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        descriptor, late = self._child.stdout.fileno(), time.monotonic() + ANSWER_S
        while b"\n" not in self._read:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, late - time.monotonic()))
            if not ready:
                self.close()
                raise Lost(f"the process of the peer: no answer for {ANSWER_S:g} s")
            some = os.read(descriptor, 1 << 16)
            if not some:
                raise Lost(self._end())
            self._read += some
        line, _, self._read = self._read.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _end(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(5)
        status = self._child.returncode
        self.close()
        said = Path(self._log.name).read_text(errors="replace").strip().splitlines()[-1:]
        how = f"signal {-status}" if status and status < 0 else f"status {status}"
        return f"ended with {how}, saying {said[0][:200] if said else 'nothing'}"

    def _settle(self) -> None:
        """Waits until all threads of the child process sleep, but at most SLEEP_S seconds."""
        tasks, late = Path(f"/proc/{self._child.pid}/task"), time.monotonic() + SLEEP_S
        while time.monotonic() < late and any(map(_runs, tasks.glob("*/stat"))):
            time.sleep(0.0005)

    def close(self) -> None:
        """Ends the process and frees its memory."""
        if self._child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
        for stream in (self._child.stdin, self._child.stdout, self._log):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _runs(stat: Path) -> bool:
    """True if the thread runs or waits for a core.

    In a stat file the state comes after the thread's name, which may contain any character
    (proc(5)).
    """
    try:
        return stat.read_text().rpartition(")")[2].split()[:1] == ["R"]
    except OSError:
        return False  # the thread has ended, so its stat file is gone
