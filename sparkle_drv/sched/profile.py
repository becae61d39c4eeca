"""What was measured of devices, kept between runs: SPARKLE_HOME/profile.json.

An entry belongs to one device, driver, instruction set, number of threads and package version
(ops/tuned.py, `identity`); what was measured on anything else is never used. It holds the raw
points, not what was made of them, so that a better fit needs no new measurement. The file is one of
kept.py: replaced whole, changed under a lock, set aside with a warning when damaged.
"""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

from sparkle_drv.kept import DeviceFile
from sparkle_drv.ops.tuned import identity
from sparkle_drv.types import DeviceInfo

from .line import Point

log = logging.getLogger("sparkle_drv.sched")

INTO, BACK = "link:in", "link:out"
"""Names, among those of classes of work, of the way from the host and to it; sizes are bytes."""


class Profile:
    """The file below one SPARKLE_HOME; "" is nowhere: nothing is found or kept."""

    def __init__(self, home: str) -> None:
        self._file = DeviceFile(Path(home, "profile.json"), log) if home else None

    def points(self, info: DeviceInfo) -> dict[str, list[Point]]:
        """By class of work, or INTO and BACK: what was measured on this very device; {}: nothing.

        A class whose points make no sense counts as not measured.
        """
        entry = self._file.read().get(identity(info)) if self._file else None
        found = {}
        for name, given in entry.items() if isinstance(entry, dict) else ():
            points = _points(given)
            if points:
                found[name] = points
        return found

    def put(self, info: DeviceInfo, measured: dict[str, list[Point]]) -> None:
        """Keep what was measured, beside what is known of other classes. A file that cannot be
        written is told in the log: the next run measures again.
        """
        if self._file is None or not measured:
            return

        def change(known: Any) -> dict[str, Any]:
            return {**(known if isinstance(known, dict) else {}), **measured}

        try:
            self._file.update(identity(info), change)
        except OSError as error:
            log.warning("%s: what was measured is not kept: %s", info.uri, error)


def _points(given: Any) -> list[Point]:
    """The points of an entry; [] when one of them is none."""
    try:
        points = [(float(size), float(seconds)) for size, seconds in given]
    except (TypeError, ValueError):
        return []
    sane = all(0 <= n < math.inf and 0 < t < math.inf for n, t in points)
    return points if sane else []
