"""What the host lends to a software device."""

from __future__ import annotations

import os


def memory_nbytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def thread_count() -> int:
    return len(os.sched_getaffinity(0))
