"""Keeps files whole and ends child processes when a benchmark is killed.

The benchmarks of gpu_run.py write their results with this module after each part.
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
    """Replaces a file's content atomically. A device file or a pipe is written to directly.

    The package's saved_files.put does more, but gpu_run.py runs before the package is available.
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
    """Removes the temporary files that a killed `write`, or the package's saved_files.replace, left
    behind.
    """
    for left in folder.glob(".new-*"):
        with contextlib.suppress(OSError):
            left.unlink()


def end_with_parent(parent: int) -> None:
    """Makes Linux kill this process when its parent ends, for whatever reason. For use as
    preexec_fn.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # if the parent had already ended, prctl has no effect
        os._exit(1)
