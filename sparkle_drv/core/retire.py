"""What was closed while the device may still use it: freed once every queue has reached what it had
then been given.

Finalizers run anywhere, also inside our own calls, so nothing here takes a lock: a deque's append
and popleft are atomic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from sparkle_drv.backends.base import Backend

_Entry = tuple[Callable[[], object], list[tuple[Any, int]]]


class RetireList:
    """Owned by one device; outlives it as long as a finalizer needs it."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.queues: dict[int, Any] = {}  # id -> the backend's queue handle, open queues only
        self._entries: deque[_Entry] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def retire(self, release: Callable[[], object]) -> None:
        """Call `release` as soon as nothing submitted so far can touch what it frees."""
        backend = self.backend
        waiting = []
        for queue in list(self.queues.values()):
            submitted = backend.submitted(queue)
            if backend.reached(queue) < submitted:
                waiting.append((queue, submitted))
        self._entries.append((release, waiting))
        self.drain()

    def hold(self, queue: Any, value: int, *objects: object) -> None:
        """Keep `objects` alive until `queue` has reached `value`."""
        self._entries.append((lambda: objects, [(queue, value)]))
        self.drain()

    def drain(self) -> None:
        for _ in range(len(self._entries)):
            try:
                release, waiting = self._entries.popleft()
            except IndexError:
                return
            if all(self.backend.reached(queue) >= value for queue, value in waiting):
                release()
            else:
                self._entries.append((release, waiting))
