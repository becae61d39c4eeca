"""What is going on: one line on a terminal, which goes away again; nothing where there is none."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

ANEW = "\r\x1b[K"
"""To the start of the line, and what stands in it is erased: ECMA-48, CR and EL."""


@contextlib.contextmanager
def shown(text: str) -> Iterator[None]:
    """`text` on the terminal while the block runs."""
    terminal = sys.stderr
    if terminal is None or not terminal.isatty():
        yield
        return
    terminal.write(ANEW + text)
    terminal.flush()
    try:
        yield
    finally:
        terminal.write(ANEW)
        terminal.flush()
