"""What submissions waited for on other queues: who builds on a failed submission has failed, too.

A device lets what waits run when what it waited for has ended, however it ended. So a fence asks
those fences, too, before it calls its submission done. Called by queue.py and fence.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkle_drv.errors import FenceTimeout

if TYPE_CHECKING:
    from sparkle_drv.core.fence import Fence
    from sparkle_drv.core.queue import Queue

MANY = 64  # waits that nobody asked about; then those that ended well are forgotten
# What was waited for has ended; that its queue has yet to take note of it, which another thread may
# keep it from for 0.1 s, must not look like a timeout.
_NOTICE_S = 5.0


@dataclass
class Waited:
    """That the submission `value` waited for `fences`. `until`: the newest value when somebody was
    first told that one of them had failed, 0 before: what was submitted later knew of it."""

    value: int
    fences: tuple[Fence, ...]
    until: int = 0


def note(waits: list[Waited], fences: Sequence[Fence], value: int) -> None:
    """Keeps what the submission `value` waits for."""
    if len(waits) >= MANY:
        _forget(waits, value)
    waits.append(Waited(value, tuple(fences)))


def _forget(waits: list[Waited], value: int) -> bool:
    """Drops the oldest that ended well, up to `value`; is none left there? Nobody is told of
    failures by this: who waits later must be."""
    for waited in list(waits):
        if waited.value > value:
            break
        for fence in waited.fences:
            queue = fence.queue
            if (
                not fence.done
                or queue._failed(fence.value)
                or not _forget(queue._waits, fence.value)
            ):
                return False
        _drop(waits, waited)
    return True


def _drop(waits: list[Waited], waited: Waited) -> None:
    with contextlib.suppress(ValueError):  # another thread has dropped it, too
        waits.remove(waited)


def judge(waits: list[Waited], value: int, queue: Queue) -> None:
    """Raises as the wait of a failed fence on which `value`, which has ended, builds."""
    for waited in list(waits):
        if value < waited.value or 0 < waited.until < value:
            continue
        try:
            for fence in waited.fences:
                fence.wait(_NOTICE_S)
        except FenceTimeout:
            raise
        except Exception:
            waited.until = waited.until or queue.submitted
            raise
        _drop(waits, waited)
