"""The call of a plan, where the call table leaves it alone.

A plan reads its operands while it writes its result, and has no temporary: whatever shares memory
with the result is refused. Called by gemm and conv2d.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from sparkle_drv._hot import PointerBase, Table
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.core.queue import Queue
from sparkle_drv.ops.memory import staging

from . import table


def launch(
    queue: Queue, kernel: Kernel, given: tuple[Any, ...], tail: tuple[Any, ...], rows: Table,
    call: table.Call,
) -> Fence:  # fmt: skip
    """Starts `kernel` on `given`, the result first, and the scalars in `tail`.

    The next such `call` takes a row of `rows`, if host arrays are among its values.

    Raises ValueError (memory is shared) and as `Queue.launch`.
    """
    try:
        _check_apart(*given)
    except AttributeError:
        pointers = _pointers(queue, kernel, given)
        _check_apart(*pointers)
        fence = queue.launch(kernel, *pointers, *tail)
        table.planned(rows, call, kernel, (*pointers, *tail))
        return fence
    return queue.launch(kernel, *given, *tail)


def prepare(queue: Queue, kernel: Kernel, given: tuple[Any, ...], tail: tuple[Any, ...]) -> Any:
    """As `launch`, by `Queue.prepare`."""
    with suppress(AttributeError):  # what is no pointer is refused there
        _check_apart(*given)
    return queue.prepare(kernel, *given, *tail)


def _pointers(queue: Queue, kernel: Kernel, given: tuple[Any, ...]) -> list[Any]:
    """What host arrays and exports of other libraries become, once: what is compared is what is
    launched, and the launch keeps it.
    """
    return [
        x if x is None or isinstance(x, PointerBase) else queue._wrapped(arg, x, kernel.name)
        for arg, x in zip(kernel.args, given, strict=False)
    ]


def _check_apart(out: Any, *operands: Any) -> None:
    """Of pointers of a launch, or None; AttributeError for anything else."""
    if out is not None and staging.meets(out, operands):  # None: which the launch refuses
        raise ValueError("out: it overlaps an operand, which a plan reads while it writes")
