"""Queues that read for copies between devices, kept until their work has ended.

Freeing a queue while the GPU works on it would free the job's IB and memory, too. So a queue that
does not end in time stays in a list, with its node open. It is checked whenever another one is
opened and whenever live objects are counted. The kernel ends work that is left when the process
exits.
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
    """A queue of the backend; free it with `close`."""
    sweep()
    return backend.open_queue(False)


def close(backend: AmdgpuBackend, queue: Any) -> None:
    """Closes a queue now, or as soon as its work has ended. Does not wait."""
    _left.append((backend, queue))  # first, so that an interrupt cannot lose it
    sweep()


def sweep() -> None:
    """Closes the queues whose work has ended."""
    for one in list(_left):
        backend, queue = one
        if backend.close_queue(queue, 0) != -errno.ETIMEDOUT:
            with contextlib.suppress(ValueError):  # another thread has removed it
                _left.remove(one)
