"""Queues that read for copies between devices, until their work has ended.

A queue that goes while the GPU still works on it would take the job's IB and its memory along. So
one that does not end in time stays in a list, with its node open, and is looked at whenever another
is opened and whenever live objects are counted. What still runs when the process leaves is the
kernel's to end.
"""

from __future__ import annotations

import contextlib
import errno
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparkle_drv.backends.amdgpu.backend import AmdgpuBackend

_left: deque[tuple[AmdgpuBackend, Any]] = deque()


def open(backend: AmdgpuBackend) -> Any:
    """A queue of the backend, for `close`."""
    sweep()
    return backend.open_queue(False)


def close(backend: AmdgpuBackend, queue: Any) -> None:
    """Closes a queue now, or as soon as its work has ended; it is not waited for."""
    _left.append((backend, queue))  # first: an interrupt must not lose it
    sweep()


def sweep() -> None:
    """Closes those whose work has ended."""
    for one in list(_left):
        backend, queue = one
        if backend.close_queue(queue, 0) != -errno.ETIMEDOUT:
            with contextlib.suppress(ValueError):  # another thread has closed it, too
                _left.remove(one)
