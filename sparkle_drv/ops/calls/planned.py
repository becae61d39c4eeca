"""Plans: an operation of fixed sizes, called with the memory that it reads and writes.

A plan has no temporary and reads its operands while it writes its result: whatever shares memory
with the result is refused. Called by gemm and conv2d.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

from sparkle_drv._hot import CallableBase, Table
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.core.queue import Queue
from sparkle_drv.ops.memory import staging
from sparkle_drv.ops.memory.constant import Constant
from sparkle_drv.types import TilePlan

from . import table


class Plan(CallableBase):
    """A class of plans has `__call__`, for what the call table leaves alone, and `bind`.

    `kernel` is what runs, `queue` where, `tile` the TilePlan that it was made for; `tile.source`
    says whether that was tuned.
    """

    __slots__ = ("_brief", "_rows", "_site", "_tail", "kernel", "queue", "tile")
    _SOURCES: ClassVar[tuple[int, ...]]
    """Which operand is each pointer of the kernel, the result first: see table.Call."""
    _pointers: ClassVar[Callable[..., tuple[Any, ...]]]
    """Of the operands: those of a launch, the result first."""

    def __init__(
        self, call: Callable[..., Fence], queue: Queue, kernel: Kernel, tile: TilePlan | None,
        tail: tuple[int, ...], brief: bool = False,
    ) -> None:  # fmt: skip
        self.kernel, self.tile, self.queue = kernel, tile, queue
        self._site, self._tail, self._brief, self._rows = call, tail, brief, Table(1)
        self._begin(call, self._rows, table.meaning(call, 1))

    def _launch(self, *operands: Any) -> Fence:
        """Raises ValueError (memory is shared) and as `Queue.launch`."""
        kernel, queue = self.kernel, self.queue
        # Once: what is compared is what is launched, and the launch keeps it.
        pointers = queue._pointers(kernel, self._pointers(*operands))
        _check_apart(*pointers)
        args = (*pointers, *self._tail)
        fence = queue.launch(kernel, *args)
        out, brief = self._SOURCES[0], self._brief
        call = table.Call(self._site, operands, self._SOURCES, out, brief=brief)
        table.planned(self._rows, call, queue, kernel, args)
        return fence

    def _prepare(self, *operands: Any) -> Any:
        given = self._pointers(*operands)
        with suppress(AttributeError):  # what is no pointer is refused there
            _check_apart(*given)
        return self.queue.prepare(self.kernel, *given, *self._tail)

    def _arrays(self, **operands: Any) -> tuple[Any, ...]:
        """`operands` with its Array in the place of each Constant."""
        dev = self.queue.device
        return tuple(
            x.array(name, dev) if isinstance(x, Constant) else x for name, x in operands.items()
        )


def _check_apart(out: Any, *operands: Any) -> None:
    """Of pointers of a launch, or None; AttributeError for anything else."""
    if out is not None and staging.meets(out, operands):  # None: which the launch refuses
        raise ValueError("out: it overlaps an operand, which a plan reads while it writes")
