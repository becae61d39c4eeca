"""The call table: records a call of numpy arrays as one launch, so that C can repeat the call.

A row has the packed record of the launch, and says where in it the addresses of the call's arrays
go. The key of a row is the types, shapes and strides of the arrays and the other values
(native/hot/calls/key.c). There is a table for each device, for each prepared call, and for each
constant (for the calls with that constant). The table is optional: without a row, the operation
does the same in Python.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from types import MethodType
from typing import Any, TypeVar

import numpy as np

from sparkle_drv import _hot
from sparkle_drv._hot import PointerBase
from sparkle_drv.core import numpy_layout
from sparkle_drv.core.abi.elements import BORROWED
from sparkle_drv.core.abi.records import DISPATCH_HEAD
from sparkle_drv.core.device import Device
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.core.launch_errors import packed
from sparkle_drv.core.queue import Queue
from sparkle_drv.ops.memory import recycled, staging
from sparkle_drv.ops.memory.constant import Constant
from sparkle_drv.ops.shapes import space

T = TypeVar("T", bound=_hot.CallableBase)
call_key = _hot.call_key
"""Returns the key of a call by types and shapes alone (native/hot/calls/key.c), for sched."""
# The numbers of sets in the call table of a device, and in that of a Constant. A set has four rows.
SETS, SETS_OF_CONSTANT = 256, 8
RESULT, BLOCK, _FIXED = -1, -2, -3  # enum hot_source of native/hot/calls/row.h
_WRITTEN, _SAME_PLACE, _POINTER = 1, 2, 4  # enum hot_patch_flags
_PATCH, _NUMBER = struct.Struct("=i3Iq"), struct.Struct("=4I")
_NUMBERS = {int, float, bool} | {np.dtype(code).type for code in "bhilqBHILQefdg"}
"""The number types of Python and numpy. Conversion of a subclass could run the caller's code."""
_BRIEF = 64e3
"""A product of fewer multiplications ends before another thread could get the GIL."""


def is_brief(m: int, n: int, k: int) -> bool:
    """Returns whether a call of a matrix product of this size keeps the GIL.

    A call with a small product keeps it, because the release of the GIL would take a tenth of the
    time of the smallest product.
    """
    return m * n * k < _BRIEF


def meaning(
    function: Callable[..., Any], skipped: int
) -> tuple[tuple[str, ...], int, dict[str, Any]]:
    """Returns the names of a function's parameters, how many may be positional, and the defaults.

    The first `skipped` parameters of `function` are left out.
    """
    values = list(inspect.signature(function).parameters.values())[skipped:]
    return (
        tuple(p.name for p in values),
        sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in values),
        {p.name: p.default for p in values if p.default is not p.empty},
    )


def operation(kind: type[T]) -> T:
    """Returns an object of class `kind`, whose calls C tries to repeat before Python runs.

    The signature of the object is that of `kind.__call__(self, dev, ...)`.
    """
    method = vars(kind)["__call__"]
    made = _hot.direct(kind)()
    made._begin(method, None, meaning(method, 2))
    vars(made)["__signature__"] = inspect.signature(MethodType(method, made))
    return made


def again(dev: Device, call: tuple[Any, ...]) -> Any:
    """Makes the call (site, dev, *values) and returns its result; None if C has no row for it."""
    table = dev._calls
    return None if table is None else table.again(*call)


@dataclass
class TableCall:
    """A call for the table: `site` is the called function, `values` its arguments after the device.

    sources: for each pointer argument of the kernel, the index in `values` of the object that has
    the memory. It is BLOCK for the constants of a map, None if the pointer is the same in every
    call. out: the index in `values` of the array for the result; RESULT if every call makes a new
    result. inplace: True if the kernel reads element i of all inputs before it writes element i.
    brief: True if the call is so short that it keeps the GIL. block: the bytes of the constants of
    a map, in which each call fills in its numbers. numbers: (index in `values`, struct code, offset
    in the block) for each constant that a call fills in.
    """

    site: object
    values: tuple[Any, ...]
    sources: Sequence[int | None]
    out: int = RESULT
    inplace: bool = False
    brief: bool = False
    block: bytes = b""
    numbers: Sequence[tuple[int, str, int]] = ()

    def row(
        self, queue: Queue, kernel: Kernel, args: Sequence[Any], result: Any
    ) -> _hot.Row | None:
        """Returns the row of a call that launched `kernel` with `args`.

        Returns None if C cannot repeat the call.
        """
        values = tuple(_tuples(x) for x in self.values)
        typed = {value for value, _, _ in self.numbers}
        compared, meant = 0, []
        for i, x in enumerate(values):
            if type(x) is np.ndarray:
                meant.append(x.dtype)
            elif i in typed and type(x) not in _NUMBERS:
                return None  # the conversion of x to a number may run the caller's code
            elif isinstance(x, (Constant, PointerBase)) or i in typed or x is None:
                meant.append(type(x))
            elif _is_plain(x):
                compared |= 1 << i
                meant.append(x)
            else:
                return None
        new = self.out == RESULT or values[self.out] is None
        patches = self._patches(kernel, args, result if new else None)
        if patches is None or (
            new and not (type(result) is np.ndarray and result.flags.c_contiguous)
        ):
            return None
        fresh = (result.shape, result.dtype, result.nbytes) if new else (None, None, 0)
        shape = (None, None, 0)
        record = packed(kernel.device, kernel, *_hot.plain(kernel, tuple(args), *shape))
        numbers = b"".join(_NUMBER.pack(v, ord(code), at, 0) for v, code, at in self.numbers)
        fixed = (
            self.site, tuple(meant), compared, queue, kernel, record, *patches, np.empty, *fresh,
            self.out, self.brief, self.block, numbers,
        )  # fmt: skip
        return _hot.Row(values, fixed)

    def _patches(
        self, kernel: Kernel, args: Any, result: Any
    ) -> tuple[bytes, tuple[Any, ...]] | None:
        """Returns (packed structs, pointers), by which C sets the pointer arguments of a repeated
        call.

        There is a struct for each pointer argument that is not None. The pointers are those that
        are the same in every call. Returns None if C cannot find a pointer in later calls: it
        changes, and it does not point into the memory of an argument or of the result.
        """
        signature = kernel.signature
        pointers = [i for i, arg in enumerate(signature.args) if arg.is_pointer]
        patches, kept = b"", []
        sources = chain(self.sources, repeat(None))
        for at, (i, source) in enumerate(zip(pointers, sources, strict=False)):
            pointer, flags = args[i], _WRITTEN * signature.args[i].is_written
            if pointer is None:
                continue
            new = source == self.out and result is not None
            operand = result if new else None if source in (None, BLOCK) else self.values[source]
            if source == BLOCK:
                base = pointer._address
            elif isinstance(operand, np.ndarray):
                source, base = RESULT if new else source, operand.ctypes.data
                below, nbytes = space.reach(operand.shape, operand.strides, operand.itemsize)
                start = pointer._address - (base - below)
                if not kernel.device.info.unified or not 0 <= start <= nbytes - pointer.nbytes:
                    return None
                flags |= _SAME_PLACE * self._in_place(operand, source)
            elif operand is not None and pointer._elements & BORROWED:
                return None
            elif operand is None or isinstance(operand, Constant):
                source, base = _FIXED, 0
                kept.append(pointer)
            elif pointer is not operand:
                return None  # `pointer` is a copy that this call made, not the caller's memory
            else:
                flags, base = flags | _POINTER, pointer._address
                flags |= _SAME_PLACE * self._in_place(operand, source)
            where = DISPATCH_HEAD.size + signature.offsets[i]
            covered = DISPATCH_HEAD.size + signature.args_nbytes + 8 * at
            patches += _PATCH.pack(source, flags, where, covered, pointer._address - base)
        return patches, tuple(kept)

    def _in_place(self, x: Any, source: int | None) -> bool:
        """Returns whether the result may have exactly the memory of the value `x`."""
        y = self.values[self.out]
        if not self.inplace or source == self.out or y is None:
            return False
        same = x.shape == y.shape and x.dtype.itemsize == y.dtype.itemsize
        return bool(same and getattr(x, "strides", 0) == getattr(y, "strides", 0))


def remember(
    stage: staging.Stage, result: Any, site: object, values: tuple[Any, ...],
    sources: Sequence[int | None], *, arrays: bool = False, **more: Any,
) -> Any:  # fmt: skip
    """Returns `result`, and adds a row to the call table so that C repeats such a call from now on.

    Nothing is added unless the call was one launch. Its operands and `out` must be numpy arrays, or
    with `arrays=True` Arrays of the device. `site` is a part of the row's key. A row does not
    compare the shapes of Arrays, so the caller must give a different `site` for different shapes.
    The other arguments are those of TableCall.
    """
    constants = [x for x in values if isinstance(x, Constant)]
    if stage.on_device != arrays or len(stage.launched) != 1 or len(constants) > 1:
        return result
    if not _there(stage.queue):
        return result
    row = TableCall(site, values, sources, **more).row(stage.queue, *stage.launched[0], result)
    if row is not None:
        recycled.begin()
        owner, sets = (constants[0], SETS_OF_CONSTANT) if constants else (stage.dev, SETS)
        if owner._calls is None:
            owner._calls = _hot.Table(sets)
        owner._calls.put(row)
    return result


def planned(table: _hot.Table, call: TableCall, queue: Queue, kernel: Kernel, args: Any) -> None:
    """Adds a row for a prepared call to its own `table`. `args` are the arguments of its launch."""
    if _there(queue) and not any(isinstance(x, Constant) for x in call.values):
        row = call.row(queue, kernel, args, None)
        if row is not None:
            table.put(row)


def _there(queue: Queue) -> bool:
    """Returns whether C knows numpy's array struct, and the queue's backend is native."""
    return numpy_layout.known() and queue._in_c


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if type(value) in (list, tuple) else value


def _is_plain(value: Any) -> bool:
    """Returns whether C can compare `value` with the value of a later call."""
    if type(value) is tuple:
        return all(_is_plain(x) for x in value)
    return value is None or type(value) in (int, str, bool)
