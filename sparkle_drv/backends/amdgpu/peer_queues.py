"""Queues on which a device reads its memory for a copy to another device. Each is kept until its
work has ended.

Freeing a queue while the GPU works on it would free the job's IB and memory, too. So a queue that
does not end in time stays in a list, with its render node open. The list is checked whenever
another such queue is opened and whenever live objects are counted. When the process exits, the
kernel driver ends work that is left.
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
    """Opens a queue of the backend. `close` of this module frees it."""
    sweep()
    return backend.open_queue(False)


def close(backend: AmdgpuBackend, queue: Any) -> None:
    """Closes a queue now, or as soon as its work has ended. Does not wait."""
    # Put into `_left` before `sweep` tries to close it, so that an interrupt cannot lose the queue.
    _left.append((backend, queue))
    sweep()


def sweep() -> None:
    """Closes the queues whose work has ended."""
    for pair in list(_left):
        backend, queue = pair
        if backend.close_queue(queue, 0) != -errno.ETIMEDOUT:
            # another thread has removed the queue from the list
            with contextlib.suppress(ValueError):
                _left.remove(pair)
