"""Prepared calls: an operation of fixed sizes, called with the memory that it reads and writes.

A prepared call has no temporary memory and reads operands while it writes its result. So it raises
ValueError if an operand shares memory with the result. gemm and conv2d have prepared calls.
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


class PreparedCall(CallableBase):
    """The base class of prepared calls.

    A subclass has `bind`, and `__call__` for calls that the call table does not have. `kernel` runs
    on `queue`. `tile` is the kernel's TilePlan; `tile.source` says whether the plan was tuned.
    """

    __slots__ = ("_brief", "_rows", "_site", "_tail", "kernel", "queue", "tile")
    _SOURCES: ClassVar[tuple[int, ...]]
    """The index of the operand for each pointer of the kernel, the result first: see TableCall."""
    _pointers: ClassVar[Callable[..., tuple[Any, ...]]]
    """Turns the operands into the pointers of a launch, the result first."""

    def __init__(
        self, call: Callable[..., Fence], queue: Queue, kernel: Kernel, tile: TilePlan | None,
        tail: tuple[int, ...], brief: bool = False,
    ) -> None:  # fmt: skip
        self.kernel, self.tile, self.queue = kernel, tile, queue
        self._site, self._tail, self._brief, self._rows = call, tail, brief, Table(1)
        self._begin(call, self._rows, table.meaning(call, 1))

    def _launch(self, *operands: Any) -> Fence:
        """Launches the kernel and returns the fence.

        Raises ValueError if an operand shares memory with the result, and the errors of
        `Queue.launch`.
        """
        kernel, queue = self.kernel, self.queue
        # Operands are converted to pointers once. So the check compares the same pointers that the
        # launch gets.
        pointers = queue._pointers(kernel, self._pointers(*operands))
        _check_apart(*pointers)
        args = (*pointers, *self._tail)
        fence = queue.launch(kernel, *args)
        out, brief = self._SOURCES[0], self._brief
        call = table.TableCall(self._site, operands, self._SOURCES, out, brief=brief)
        table.planned(self._rows, call, queue, kernel, args)
        return fence

    def _prepare(self, *operands: Any) -> Any:
        given = self._pointers(*operands)
        with suppress(AttributeError):  # not a pointer: `prepare` raises the error
            _check_apart(*given)
        return self.queue.prepare(self.kernel, *given, *self._tail)

    def _arrays(self, **operands: Any) -> tuple[Any, ...]:
        """Returns the operands, with each Constant replaced by its Array."""
        dev = self.queue.device
        return tuple(
            x.array(name, dev) if isinstance(x, Constant) else x for name, x in operands.items()
        )


def _check_apart(out: Any, *operands: Any) -> None:
    """Raises ValueError if `out` shares memory with an operand.

    The arguments are pointers of a launch, or None. Anything else raises AttributeError.
    """
    if out is not None and staging.meets(out, operands):  # the launch refuses None; fault: overlap
        raise ValueError("out: expected separate memory, got memory that overlaps an operand")
