"""What submissions waited for on other queues: who builds on a failed submission has failed, too.

A device lets what waits run when what it waited for has ended, however it ended. So a fence asks
those fences, too, before it calls its submission done. Called by queue.py and fence.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkle_drv.core.fence import Fence
    from sparkle_drv.core.queue import Queue

MANY = 64  # waits that nobody asked about; then those that ended well are forgotten


class Waited:
    """That the submission `value` waited for `fences`. `until`: the newest value when somebody was
    first told that one of them had failed, 0 before: what was submitted later knew of it."""

    __slots__ = ("fences", "until", "value")

    def __init__(self, value: int, fences: Sequence[Fence]) -> None:
        self.value = value
        self.fences = tuple(fences)
        self.until = 0

    def went_well(self) -> bool:
        """Have all of them ended, and none failed?"""
        try:
            return all(fence.done and fence.wait(0) for fence in self.fences)
        except Exception:
            return False


def note(waits: list[Waited], value: int, fences: Sequence[Fence]) -> None:
    """Keeps what a submission waits for."""
    if len(waits) >= MANY:
        waits[:] = [waited for waited in waits if not waited.went_well()]
    waits.append(Waited(value, fences))


def judge(waits: list[Waited], value: int, queue: Queue) -> None:
    """Raises as the wait of a failed fence on which `value`, which has ended, builds."""
    for waited in list(waits):
        if value < waited.value or 0 < waited.until < value:
            continue
        try:
            for fence in waited.fences:
                fence.wait(0)
        except Exception:
            waited.until = waited.until or queue.submitted
            raise
        if waited in waits:
            waits.remove(waited)
