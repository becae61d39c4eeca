"""What is left when a benchmark is killed: files that are whole at every moment, and no children.

The benchmarks of gpu_run.py write their results so, after each part.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_libc = ctypes.CDLL(None)


def write(path: str | Path, content: str | bytes) -> None:
    """The new content takes the old one's place at once. A device or a pipe is written to.

    kept.put of the package does more, but gpu_run.py runs before there is a package.
    """
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    fresh = path.with_name(f".new-{os.getpid()}-{path.name}")
    try:
        fresh.write_bytes(data)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def sweep(folder: Path) -> None:
    """Removes what a killed `write` left there, or kept.replace of the package."""
    for left in folder.glob(".new-*"):
        with contextlib.suppress(OSError):
            left.unlink()


def end_with_parent(parent: int) -> None:
    """For preexec_fn: the kernel kills this process when its parent ends, however that happens."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it had ended before that call, which then does nothing
        os._exit(1)
