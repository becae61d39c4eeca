"""Every row of this folder by its name. Does not import sparkle_drv: a row is made only in the
process that times it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from _cpu_peers.base import Named

from . import calls, first_call, graphs, launches
from .makers import Makers

PROCESSES_SHARE = 5.0
"""Row.share of rows whose calls are processes. Six rounds are the least for an interval of 95 %."""


@dataclass(frozen=True)
class Row:
    """A row that only benchmarks/against.py times. `makers` has a function for each way to compute
    the row (`Way` of base.py), by the way's name. The function takes the cpu device. A
    row gets `share` times the seconds of other rows.
    """

    name: str
    makers: Makers
    share: float = 1.0

    def ways(self, dev: Any) -> Iterator[Named]:
        """Yields the ways to compute the row."""
        for way, make in self.makers.items():
            yield way, partial(make, dev)


ROWS: Mapping[str, Row] = MappingProxyType(
    {
        name: Row(name, makers, PROCESSES_SHARE if part is first_call else 1.0)
        for part in (launches, calls, graphs, first_call)
        for name, makers in part.ROWS.items()
    }
)
