"""What measures the rows of one device: in this process, or in a child of it (child.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from _bench.jobs import catalog
from _bench.jobs.job import Job
from _bench.jobs.roofs import Roof
from _bench.rows.results import Row

from . import beside, devices, versus
from .beside import Gauges
from .engine import Settings

if TYPE_CHECKING:
    import sparkle_drv as sp


class Meter(Protocol):
    """Rows of a job and its rivals, and the best roof so far, `complete`d for a drawing."""

    def rows(self, job: Job, mode: str) -> list[Row]: ...

    def roof(self, complete: bool = False) -> Roof | None: ...


@dataclass
class Here:
    """A Meter in this process."""

    device: sp.Device
    gauges: Gauges | None
    settings: Settings
    threshold: float

    def rows(self, job: Job, mode: str) -> list[Row]:
        found = versus.rows(job, self.device, mode, self.settings, self.gauges, self.threshold)
        return [row for row, _ in found]

    def roof(self, complete: bool = False) -> Roof | None:
        if self.gauges is None:
            return None
        if complete:
            self.gauges.complete()
        return self.gauges.best


@contextmanager
def here(uri: str, settings: Settings, threshold: float) -> Iterator[Here]:
    """A Meter that opens the device in this process. Raises NoSuchDevice."""
    with (
        devices.opened(uri) as device,
        beside.gauges(device, catalog.manifest(device), settings) as gauges,
    ):
        yield Here(device, gauges, settings, threshold)
