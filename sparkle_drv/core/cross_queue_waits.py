"""Records which submissions wait for fences of other queues, so that a failure propagates.

A submission that waits for a fence starts when the submission of the fence has ended, even if that
one failed. So `Fence.wait` also checks the fences that its own submission waited for. queue.py and
fence.py call this.
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

# Once a queue's list of waits has this many entries, each new wait first drops the oldest ones, up
# to the first that failed or has not ended.
MANY = 64
# Timeout of `judge` for each fence. The submissions of these fences have ended, but another thread
# may delay the report of such an end for 0.1 s. This delay must not look like a timeout.
_NOTICE_S = 5.0


@dataclass
class Waited:
    """A record that the submission `value` of a queue waited for `fences`.

    `until` is 0 until the failure of one of these fences is first reported. Then it becomes the
    newest value of the queue at that time. Submissions after this value do not report the failure
    again.
    """

    value: int
    fences: tuple[Fence, ...]
    until: int = 0


def note(waits: list[Waited], fences: Sequence[Fence], value: int) -> None:
    """Records that the submission `value` waits for `fences`."""
    if len(waits) >= MANY:
        _forget(waits, value)
    waits.append(Waited(value, tuple(fences)))


def _forget(waits: list[Waited], value: int) -> bool:
    """Returns whether all waits of submissions up to `value` succeeded.

    Drops these waits, oldest first, up to the first that failed or has not ended. Failures are not
    marked as reported, so a later wait still raises them.
    """
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
    with contextlib.suppress(ValueError):  # another thread has already removed `waited`
        waits.remove(waited)


def judge(waits: list[Waited], value: int, queue: Queue) -> None:
    """Raises the error of a failed fence that the submission `value` waited for.

    Call this only when the submission `value` has ended. The errors are those of `Fence.wait`.
    """
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
