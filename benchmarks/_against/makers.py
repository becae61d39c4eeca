"""The functions that make the ways of a row (`Way` of base.py), by the way's name."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from _cpu_peers.base import Way

Make: TypeAlias = Callable[[Any], Way]
"""Takes the cpu device, returns a way."""
Makers: TypeAlias = Mapping[str, Make]


def by_wall(make: Make) -> Makers:
    """Returns the only way: the time by the host's clock."""
    return {"checked": make}


def by_both(make: Make) -> Makers:
    """Returns two ways, for calls that wait for threads. `cpu` is the CPU time of the process.
    Other processes on the machine hardly change it.
    """

    def on_cpu(dev: Any) -> Way:
        return replace(make(dev), clock=time.process_time)

    return {"checked": make, "cpu": on_cpu}
