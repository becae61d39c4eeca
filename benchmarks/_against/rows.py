"""Every row of this folder by its name. Does not import sparkle_drv: a row is made only in the
process that times it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from _cpu_peers.base import Named, Way

from . import calls, first_call, graphs, launches

WORKERS = ("graph", "shards")
"""Beginnings of the names of rows whose calls wait for threads. So do calls with ContextArrays."""


@dataclass(frozen=True)
class Row:
    """A row that only benchmarks/against.py times. `make` takes the cpu device and returns the way
    to compute the row (`Way` of base.py).
    """

    name: str
    make: Callable[[Any], Way]

    def ways(self, dev: Any) -> Iterator[Named]:
        """Yields the way by the host's clock. Calls that wait for threads are also timed by the CPU
        time of the whole process, which other processes on the machine hardly change.
        """
        yield "checked", partial(self.make, dev)
        if self.name.startswith(WORKERS) or self.name.endswith("arrays"):
            yield "cpu", lambda: replace(self.make(dev), clock=time.process_time)


ROWS: Mapping[str, Row] = MappingProxyType(
    {
        name: Row(name, make)
        for part in (launches, calls, graphs, first_call)
        for name, make in part.WAYS.items()
    }
)
