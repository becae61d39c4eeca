"""Shows one line on a terminal's stderr: what is measured now, and how long the run may
still take.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO


class Progress:
    """Use as `with Progress(total) as p`, and call `p.step("gemm m=512 hot")` before each piece of
    work.

    Prints nothing when stderr is not a terminal. The time left is an estimate, so the line says
    "about": the mean time of the finished pieces, multiplied by the number of pieces left.
    """

    def __init__(self, total: int, out: TextIO | None = None) -> None:
        self.total, self.begun = total, 0
        self.out = out or sys.stderr
        self.live = self.out.isatty()
        self.start = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.clear()

    def step(self, what: str) -> None:
        """Shows `what`, the name of the next piece of work, and the time left."""
        done, self.begun = self.begun, self.begun + 1
        if not self.live:
            return
        spent = time.monotonic() - self.start
        left = spent / done * (self.total - done) if done else None
        eta = f", about {int(left) // 60}m{int(left) % 60:02}s left" if left is not None else ""
        self.write(f"[{self.begun}/{self.total}] {what}{eta}")

    def clear(self) -> None:
        """Clears the line, so that results can be printed in its place."""
        if self.live:
            self.write("")

    def write(self, text: str) -> None:
        self.out.write("\r\x1b[K" + text[:118])
        self.out.flush()
