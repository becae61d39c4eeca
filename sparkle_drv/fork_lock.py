"""fork_lock: a lock that is free in a forked child, whichever thread held it at the fork.

A lock that a thread of the parent holds would stay locked in the child for ever, because the child
does not have that thread. The state that such a lock guards may be half changed in the child. So
objects of the parent raise DeviceLost there before they read that state, and module-level state
must be usable between any two steps of a change.

All locks of objects that outlive a call come from here, except those of layers that import nothing
and of sparkle_drv/cluster.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def fork_lock() -> threading.RLock:
    """Returns a new lock. It is reentrant, because finalizers and signal handlers run anywhere."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _renew() -> None:
    for lock in list(_locks):
        # The thread that forks exists in the child too, and releases its own locks itself.
        if not lock._is_owned():
            lock._at_fork_reinit()  # CPython's `logging` and `threading` renew locks by this too


os.register_at_fork(after_in_child=_renew)
