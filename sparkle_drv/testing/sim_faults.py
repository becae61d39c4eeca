"""Applies a plan of faults (faults.py) to an open simulated device.

Faulty counts the device's jobs and calls, and returns the faults that the plan has for each.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field

from .faults import Fault, Schedule


@dataclass
class Faulty:
    """The faults that are planned for one device, and how many events of each kind it has had.
    Before each event the backend asks whether the event fails.
    """

    plan: tuple[Fault, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    happened: dict[str, int] = field(default_factory=dict)
    """How often each kind of fault came about, by the words of faults.py."""
    lost: str = ""
    """Why the device is gone for good; "": it is not."""

    def apply(self, schedule: Schedule) -> None:
        """Sets the plan of faults. Jobs and calls are counted from now."""
        self.plan = tuple(schedule)
        self.counts.clear()

    def call(self, kind: str) -> int:
        """Counts a call of a kind of faults.CALLS. Returns 0, or the errno with which the call
        fails.
        """
        if self.lost:
            return errno.ENODEV
        due = self._due(kind) + self._due("any")
        for fault in due:
            self._note(fault)
            if fault.what == "fail":
                return int(getattr(errno, str(fault.parameters["error"])))
            if fault.what == "unplug" or fault.parameters.get("vram_lost"):
                self.lost = "it was unplugged" if fault.what == "unplug" else "it was reset"
                return errno.ENODEV
        return 0

    def job(self) -> list[Fault]:
        """Counts a job and returns its faults. After a fault that loses the device, the device
        stays lost.
        """
        due = self._due("job")
        for fault in due:
            if fault.what != "corrupt":
                self._note(fault)
            reasons = {"unplug": "it was unplugged", "reset": "it was reset", "hang": "it hung"}
            heavy = fault.parameters.get("vram_lost") or (
                fault.parameters.get("recovery") == "vram_lost"
            )
            if fault.what == "unplug" or heavy:
                self.lost = reasons[fault.what]
        return due

    def corrupted(self) -> None:
        """Counts a corrupted result."""
        self.happened["corrupt"] = self.happened.get("corrupt", 0) + 1

    def _note(self, fault: Fault) -> None:
        self.happened[fault.what] = self.happened.get(fault.what, 0) + 1

    def _due(self, on: str) -> list[Fault]:
        now = self.counts[on] = self.counts.get(on, 0) + 1
        return [
            fault
            for fault in self.plan
            if fault.on == on
            and fault.at <= now < fault.at + max(1, int(fault.parameters.get("count", 1)))
        ]
