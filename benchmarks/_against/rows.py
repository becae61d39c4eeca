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


@dataclass(frozen=True)
class Row:
    """A row that only benchmarks/against.py times. `makers` has a function for each way to compute
    the row (`Way` of base.py), by the way's name. The function takes the cpu device.
    """

    name: str
    makers: Makers

    def ways(self, dev: Any) -> Iterator[Named]:
        """Yields the ways to compute the row."""
        for way, make in self.makers.items():
            yield way, partial(make, dev)


ROWS: Mapping[str, Row] = MappingProxyType(
    {
        name: Row(name, makers)
        for part in (launches, calls, graphs, first_call)
        for name, makers in part.ROWS.items()
    }
)
