"""Ends the process of a test that hangs in C, where pytest-timeout, which raises in Python code,
does not reach. A process of its own watches: it needs neither the GIL nor a timer that a test or a
forked child may use. By SIGABRT, at which pytest's faulthandler shows the stacks of all threads.

    dog = Watchdog(); dog.watch(180.0); ...; dog.rest(); dog.close()
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time

DIES_WITHIN_S = 10.0  # of SIGABRT, else SIGKILL


class Watchdog:
    """Of this process."""

    def __init__(self) -> None:
        command = [sys.executable, "-S", __file__, str(os.getpid())]
        self._dog = subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0)

    def watch(self, seconds: float) -> None:
        """From now on it may take so long to the next `watch` or `rest`."""
        assert self._dog.stdin is not None
        self._dog.stdin.write(b"%f\n" % seconds)

    def rest(self) -> None:
        """Nothing is watched until the next `watch`."""
        self.watch(0.0)

    def close(self) -> None:
        """The other process ends."""
        assert self._dog.stdin is not None
        self._dog.stdin.close()
        self._dog.kill()
        self._dog.wait()


def main(watched: int) -> None:
    """In the other process: lines of stdin are seconds, 0 for no limit."""
    deadline: float | None = None
    while os.getppid() == watched:
        left = 1.0 if deadline is None else deadline - time.monotonic()
        if left <= 0:
            os.kill(watched, signal.SIGABRT)
            time.sleep(DIES_WITHIN_S)
            if os.getppid() == watched:
                os.kill(watched, signal.SIGKILL)
            return
        if select.select([0], [], [], min(left, 1.0))[0]:
            said = os.read(0, 65536)
            if not said:
                return
            last = said.split(b"\n")[-2:][0]
            seconds = float(last or 0)
            deadline = time.monotonic() + seconds if seconds else None


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(int(sys.argv[1]))
