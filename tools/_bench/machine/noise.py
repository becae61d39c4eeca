"""What disturbed a row while it was measured, as far as the system reports it.

The causes: CPU time that the host of a virtual machine took, threads that lost their core,
throttling, the clock. Only Linux reports them. A column without any value is left out. Called by
engine.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import other_load

COLUMNS = ("noise", "others", "steal", "switches", "throttled", "MHz")
CSV_COLUMNS = (
    *("noise_percent", "others_percent", "steal_percent"),
    *("involuntary_switches", "throttled_periods", "clock_mhz"),
)
# smallest share of other processes (Noise.others) to show: less is the system's own work
OTHERS_SHOWN = 0.02
_TICKS = os.sysconf("SC_CLK_TCK")
Sensors = Callable[[], Mapping[str, float]]


@dataclass(frozen=True)
class Noise:
    """Disturbances during a row's samples. A field is None if the system does not report it.

    others    the share of all cores' time that other processes took
    steal     the share of all cores' time that the host gave to other machines
    switches  how often a thread of this process lost its core
    throttled in how many periods the cgroup had used up its time
    mhz       the device's clock
    """

    others: float | None = None
    steal: float | None = None
    switches: int | None = None
    throttled: int | None = None
    mhz: float | None = None

    def as_json(self) -> dict[str, float | int | None]:
        """Returns the values of CSV_COLUMNS without the first column, which is computed from the
        samples.
        """
        shares = (None if share is None else 100 * share for share in (self.others, self.steal))
        values = (*shares, self.switches, self.throttled, self.mhz)
        return dict(zip(CSV_COLUMNS[1:], values, strict=True))

    @classmethod
    def of(cls, told: Mapping[str, float | int | None]) -> Noise:
        """Returns the Noise that `as_json` wrote."""
        values = [told[name] for name in CSV_COLUMNS[1:]]
        others, steal = (None if share is None else share / 100 for share in values[:2])
        return cls(others, steal, _whole(values[2]), _whole(values[3]), values[4])

    def cells(self) -> list[str]:
        """Returns the table's cells for COLUMNS[1:], one for each field. A cell is "-" if the field
        is None, zero or too small to show.
        """
        return [
            f"{self.others:.0%}" if self.others and self.others >= OTHERS_SHOWN else "-",
            f"{self.steal:.1%}" if self.steal else "-",
            str(self.switches) if self.switches else "-",
            str(self.throttled) if self.throttled else "-",
            f"{self.mhz:.0f}" if self.mhz else "-",
        ]


class Watch:
    """Watches for disturbances from its construction on. `noise()` returns the Noise since then."""

    def __init__(self, sensors: Sensors = dict, root: Path = Path("/")) -> None:
        self._sensors, self._root = sensors, root
        self._quiet = other_load.Watch(root / "proc/stat")
        self._begin = self._now()

    def _now(self) -> tuple[float, float | None, int | None, int | None, float | None]:
        return time.monotonic(), self._steal_s(), _switches(), self._throttled(), self._mhz()

    def noise(self) -> Noise:
        now, steal, switches, throttled, mhz = self._now()
        start, *before = self._begin
        cores_s = (now - start) * (os.cpu_count() or 1)
        stolen = _less(steal, before[0])
        clocks = [value for value in (before[3], mhz) if value is not None]
        return Noise(
            self._quiet.others(),
            None if stolen is None or cores_s <= 0 else min(1.0, stolen / cores_s),
            _whole(_less(switches, before[1])),
            _whole(_less(throttled, before[2])),
            sum(clocks) / len(clocks) if clocks else None,
        )

    def _steal_s(self) -> float | None:
        """Returns the stolen seconds of all cores: the eighth number of the first line
        of /proc/stat.
        """
        fields = _read(self._root / "proc/stat").split("\n", 1)[0].split()
        known = fields[:1] == ["cpu"] and len(fields) > 8 and fields[8].isdigit()
        return int(fields[8]) / _TICKS if known else None

    def _throttled(self) -> int | None:
        """Returns in how many periods this process's cgroup was throttled, by cgroup v1 or v2.
        Returns None if the system does not report the number.
        """
        for line in _read(self._root / "proc/self/cgroup").splitlines():
            _, controllers, path = [*line.split(":", 2), "", ""][:3]
            mount = "" if not controllers else "cpu"
            if controllers and "cpu" not in controllers.split(","):
                continue
            stat = self._root / "sys/fs/cgroup" / mount / path.lstrip("/") / "cpu.stat"
            for entry in _read(stat).splitlines():
                name, _, value = entry.partition(" ")
                if name == "nr_throttled" and value.isdigit():
                    return int(value)
        return None

    def _mhz(self) -> float | None:
        """Returns the first clock that the device reports, in MHz."""
        import sparkle_drv as sp

        try:
            found = [value for name, value in self._sensors().items() if name.endswith("_mhz")]
        except (OSError, ValueError, sp.SparkleError):
            return None  # not reported here: an error of the device also fails the row itself
        return float(found[0]) if found else None


def _switches() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _less(now: float | None, before: float | None) -> float | None:
    return None if now is None or before is None else max(0.0, now - before)


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""
