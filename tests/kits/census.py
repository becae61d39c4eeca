"""Threads and descriptors of this process, for tests that must leave none.

A thread that was joined is listed a moment longer, and what other tests left may go at any time: so
more than before is looked at again for a while, and less is nobody's fault.
"""

from __future__ import annotations

import gc
import os
import time
from typing import NamedTuple

WITHIN_S = 20.0


class Census(NamedTuple):
    threads: int
    descriptors: int


def census() -> Census:
    """What there is now."""
    return Census(len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")))


def none_left(before: Census, *, threads: bool = True) -> bool:
    """Are there no more than before, at once or soon? threads=False: of descriptors alone."""
    until = time.monotonic() + WITHIN_S
    while (now := census()).descriptors > before.descriptors or (
        threads and now.threads > before.threads
    ):
        if time.monotonic() >= until:
            return False
        gc.collect()
        time.sleep(0.01)
    return True
