"""Measures the rows of one device: in this process, or in a child process (child.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from _bench.jobs import catalog
from _bench.jobs.job import Job
from _bench.jobs.roofs import Roof
from _bench.rows.results import Row

from . import devices, probes, self_test, versus
from .engine import Settings
from .probes import Gauges

if TYPE_CHECKING:
    import sparkle_drv as sp


class Meter(Protocol):
    """Measures the rows of a job and its rivals.

    `roof` returns the best roof so far; with `complete` it first measures the roofs that a drawing
    still lacks. `self_test` returns the result of a self-test as the results file stores it, or
    None if no kernel can measure it.
    """

    def rows(self, job: Job, mode: str) -> list[Row]: ...

    def roof(self, complete: bool = False) -> Roof | None: ...

    def self_test(self) -> dict[str, Any] | None: ...


@dataclass
class Here:
    """Measures the rows of a device in this process, as a Meter."""

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

    def self_test(self) -> dict[str, Any] | None:
        found = self_test.run(self.gauges) if self.gauges is not None else None
        return None if found is None else found.as_json()


@contextmanager
def here(uri: str, settings: Settings, threshold: float) -> Iterator[Here]:
    """Makes a Meter that opens the device in this process. Raises NoSuchDevice if the device cannot
    be opened.
    """
    with (
        devices.opened(uri) as device,
        probes.gauges(device, catalog.manifest(device), settings) as gauges,
    ):
        yield Here(device, gauges, settings, threshold)
