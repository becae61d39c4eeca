"""Reports slow steps: a line on the terminal while they run, and a record in the log.

The reports are for steps that may be slow for no fault of the user: measuring a device, compiling a
kernel.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO

log = logging.getLogger("sparkle_drv")

LONG_S = 0.5
"""Seconds after which people notice a wait and want to know its reason."""

_here = threading.local()  # `inside`: whether this thread is inside a block of `reported`


@contextlib.contextmanager
def reported(what: str) -> Iterator[None]:
    """Reports a `with` block that takes longer than LONG_S. If stderr is a terminal, a line is
    printed there after LONG_S. The log gets a record (INFO) at the end of the block. A block inside
    another block of the same thread is not reported itself.
    """
    if getattr(_here, "inside", False):
        yield
        return
    # The clock is read before the timer of the terminal's line starts. So every block for which
    # that line is printed also gets a record in the log.
    begin = time.perf_counter()
    terminal = _terminal()
    line = _ProgressLine(terminal, what) if terminal is not None else None
    _here.inside = True
    try:
        yield
    finally:
        _here.inside = False
        seconds = time.perf_counter() - begin
        if line is not None:
            line.end(long=seconds > LONG_S)
        if seconds > LONG_S:
            log.info("%s took %.1f s", what, seconds)


def _terminal() -> TextIO | None:
    with contextlib.suppress(AttributeError, ValueError):  # stderr may be None or closed
        return sys.stderr if sys.stderr.isatty() else None
    return None


class _ProgressLine:
    """Prints a line on the terminal, at most once, when a `with` block has taken LONG_S.

    A timer prints it. If code in the block holds the GIL, the timer may come too late: then `end`
    prints the line at the end of the block.
    """

    def __init__(self, terminal: TextIO, what: str) -> None:
        self._terminal = terminal
        self._text = f"sparkle_drv: {what} ...\n"
        self._lock = threading.Lock()
        self._due = True
        self._timer = threading.Timer(LONG_S, self._print)
        self._timer.daemon = True
        # If no thread can start for the timer, `end` prints the text that the timer would print.
        with contextlib.suppress(RuntimeError):
            self._timer.start()

    def _print(self) -> None:
        with self._lock:
            if not self._due:
                return
            self._due = False
            with contextlib.suppress(OSError, ValueError):  # the terminal may be gone
                self._terminal.write(self._text)
                self._terminal.flush()

    def end(self, long: bool) -> None:
        self._timer.cancel()
        if long:
            self._print()
        with self._lock:
            self._due = False
