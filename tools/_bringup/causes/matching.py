"""Likely causes of a failure, ranked: tables of data, one per family, and how they are matched.

A cause matches a rung by name (with * and ?), the call and the errno. `when` checks other facts of
the device and of the failure. A cause with more conditions ranks higher.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from _bringup.results.rung import Result

MOST = 5  # largest number of causes to report
LOG = "dmesg | grep -i -e amdgpu -e drm | tail -50"
AGAIN = "python tools/bringup.py ladder -d {device} --only "
INFO = "python tools/bringup.py info -d {device}"
MEM = "python tools/bringup.py mem -d {device}"
VRAM_USED = "cat /sys/class/drm/renderD*/device/mem_info_vram_used"
Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Cause:
    """A likely cause of a failure. `source` is the origin of the claim: a section of
    docs/AMDGPU_FACTS.md ("F 9"), or a document.
    """

    id: str
    text: str
    source: str
    rungs: tuple[str, ...] = ("*",)
    call: str = "*"
    errno: str = "*"
    when: Callable[[Facts], Any] | None = None
    weight: int = 0
    next: str = ""

    def told(self) -> dict[str, str]:
        return {"id": self.id, "text": self.text, "source": self.source}


def advise(causes: Sequence[Cause], result: Result, facts: Facts) -> None:
    """Writes the causes and the next command into a result. In the command, the names of the device
    and the rung replace {device} and {rung}.
    """
    found = ranked(causes, result, facts)
    result.causes = [one.told() for one in found]
    command = next((one.next for one in found if one.next), "")
    for name, value in (("device", facts.get("device", "")), ("rung", result.name)):
        command = command.replace(f"{{{name}}}", str(value))
    result.next = command or None


def score(cause: Cause, result: Result, facts: Facts) -> int | None:
    """Returns the rank of the cause, or None if the cause does not match."""
    if not any(fnmatchcase(result.name, pattern) for pattern in cause.rungs):
        return None
    points = cause.weight
    for pattern, value in ((cause.call, result.ioctl), (cause.errno, result.errno)):
        if pattern == "*":
            continue
        if not any(fnmatchcase(value or "", one) for one in pattern.split("|")):
            return None
        points += 2
    if cause.rungs != ("*",):
        points += 1 if any("*" in pattern for pattern in cause.rungs) else 2
    if cause.when is not None:
        if not cause.when({**facts, **result.facts}):
            return None
        points += 4
    return points


def ranked(causes: Sequence[Cause], result: Result, facts: Facts) -> list[Cause]:
    """Returns the causes that match, the likeliest first. Causes of equal rank stay in the table's
    order.
    """
    found = [(points, c) for c in causes if (points := score(c, result, facts)) is not None]
    found.sort(key=lambda pair: -pair[0])
    return [cause for _, cause in found[:MOST]]
