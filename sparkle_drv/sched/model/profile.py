"""Measurements of devices, kept between runs in SPARKLE_HOME/profile.json.

The key of an entry has the device, its PCI slot, driver, instruction set, number of threads and
package version (backends/rates.py, `slot_key`). Measurements under another key are never used. An
entry holds the raw points, so that a better fit needs no new measurement. saved_files.py writes the
file. It replaces the whole file at once and holds a lock meanwhile. It sets a damaged file aside,
with a warning.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from sparkle_drv.backends.rates import slot_key
from sparkle_drv.mesh.links.line import LEAST_SIZES, Point, sizes, usable
from sparkle_drv.saved_files import LOCK_TIMEOUT_S, DeviceFile
from sparkle_drv.types import DeviceInfo

log = logging.getLogger("sparkle_drv.sched")


class Profile:
    """The measurements in the folder `home` (SPARKLE_HOME). If `home` is "", nothing is read or
    written.
    """

    def __init__(self, home: str) -> None:
        self._file = DeviceFile(Path(home, "profile.json"), log, _sane) if home else None
        self._unkept: dict[str, dict[str, list[Point]]] = {}
        """Points that were not written because another process held the file, by the key of the
        device."""

    def points(self, info: DeviceInfo) -> dict[str, list[Point]]:
        """Returns the device's measured points, (size, seconds), by class of work or by name of a
        link (mesh/survey_result.py).

        A file with impossible points is set aside with a warning.
        """
        entry: Any = self._file.read().get(slot_key(info), {}) if self._file else {}
        found = {name: _points(given) for name, given in entry.items()}
        return {name: points for name, points in found.items() if sizes(points) >= LEAST_SIZES}

    def put(self, info: DeviceInfo, measured: dict[str, list[Point]]) -> None:
        """Writes new points beside those of other classes. Points of a single size are not kept.

        If the file cannot be written, a warning is logged and the next run measures again. If
        another process holds the file, only the first call waits for it. Points that could not be
        written are written by a later call.
        """
        new = {name: points for name, points in measured.items() if sizes(points) >= LEAST_SIZES}
        if self._file is None or not new:
            return
        waited, self._unkept = self._unkept, {}
        mine = slot_key(info)
        unkept = {**waited, mine: {**waited.get(mine, {}), **new}}
        for at, points in unkept.items():

            def change(known: Any, points: dict[str, list[Point]] = points) -> dict[str, Any]:
                return {**(known or {}), **points}

            try:
                self._file.update(at, change, 0.0 if waited or self._unkept else LOCK_TIMEOUT_S)
            except OSError as error:
                if isinstance(error, TimeoutError):
                    self._unkept[at] = points
                if not waited:
                    log.warning("%s: what was measured is not kept: %s", info.uri, error)


def _sane(entry: Any) -> bool:
    """Returns whether each class of an entry of the profile has measured points, all of which are
    possible results of a probe.
    """
    try:
        return all(points and all(map(usable, points)) for points in map(_points, entry.values()))
    except (AttributeError, TypeError, ValueError):
        return False


def _points(saved: Any) -> list[Point]:
    """Returns measured points, (size, seconds), as floats. Raises TypeError or ValueError if
    `saved` is not a list of pairs of numbers.
    """
    return [(float(size), float(seconds)) for size, seconds in saved]
