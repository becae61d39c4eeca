"""The call table: what a call of numpy arrays amounted to, so that C makes the same call again.

A row is the packed record of the call's one launch, with the places of the addresses that come from
the call's arrays. It is found by types, shapes and strides of the arrays and by the other values
(native/hot/calls/key.c). Each device has a table, each constant one for the calls with it, each
plan one. Everything here is optional: where no row is found, the operation does the same in Python.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any, TypeVar

import numpy as np

from sparkle_drv import _hot
from sparkle_drv.core import numpy_layout
from sparkle_drv.core.abi.records import DISPATCH_HEAD
from sparkle_drv.core.device import Device
from sparkle_drv.core.host_pointer import HostPointer
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.ops.memory import recycled, staging
from sparkle_drv.ops.memory.constant import Constant
from sparkle_drv.ops.shapes import space

T = TypeVar("T", bound=_hot.CallableBase)
KEY = "ops calls"
"""Where `dev.kept` has the table of a device."""
SETS, SETS_OF_CONSTANT = 256, 8  # of four rows each
RESULT, BLOCK, _FIXED = -1, -2, -3  # enum hot_source of native/hot/calls/row.h
_WRITTEN, _SAME_PLACE = 1, 2  # enum hot_patch_flags
_PATCH, _NUMBER = struct.Struct("=i3Iq"), struct.Struct("=4I")
_BRIEF = 64e3
"""Multiplications of a product that is over before another thread would have had the GIL."""


def is_brief(m: int, n: int, k: int) -> bool:
    """Does such a product keep the GIL? To give it up costs a tenth of the smallest."""
    return m * n * k < _BRIEF


def meaning(
    function: Callable[..., Any], skipped: int
) -> tuple[tuple[str, ...], int, dict[str, Any]]:
    """Names of the parameters, how many may be given by position, and the defaults."""
    values = list(inspect.signature(function).parameters.values())[skipped:]
    return (
        tuple(p.name for p in values),
        sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in values),
        {p.name: p.default for p in values if p.default is not p.empty},
    )


def operation(kind: type[T]) -> T:
    """An object of `kind` whose calls C tries first: `kind.__call__(self, dev, ...)` says how they
    are written.
    """
    method = vars(kind)["__call__"]
    made = _hot.direct(kind)()
    made._begin(method, None, meaning(method, 2))
    vars(made)["__signature__"] = inspect.signature(MethodType(method, made))
    return made


def again(dev: Device, site: object, *values: Any) -> Any:
    """The result of a call that was made before; None: it has to be made the whole way."""
    table = dev.kept.get(KEY)
    return None if table is None else table.again(site, dev, *values)


@dataclass
class Call:
    """A call as the table knows it: `site` is what was called, `values` come after the device.

    sources: for each pointer argument of the kernel which value has its memory, BLOCK, or None
    where it does not depend on the call. out: which value says where the result goes; RESULT: there
    is always a new one. inplace: as staging.Stage.target has it. block: a template of the
    constants; numbers: (value, struct's code, place in the block) of those that come from values.
    """

    site: object
    values: tuple[Any, ...]
    sources: Sequence[int | None]
    out: int = RESULT
    inplace: bool = False
    brief: bool = False
    block: bytes = b""
    numbers: Sequence[tuple[int, str, int]] = ()

    def __post_init__(self) -> None:
        self.values = tuple(_tuples(x) for x in self.values)

    @property
    def constants(self) -> list[Constant]:
        """Those among the values."""
        return [x for x in self.values if isinstance(x, Constant)]

    def row(self, kernel: Kernel, args: Sequence[Any], result: Any) -> _hot.Row | None:
        """The row of a call that launched `kernel` with `args`; None: C cannot make such a call."""
        typed = {value for value, _, _ in self.numbers}
        arrays = {i for i, x in enumerate(self.values) if type(x) is np.ndarray}
        compared = [
            i for i, x in enumerate(self.values)
            if i not in typed and i not in arrays and not isinstance(x, Constant)
        ]  # fmt: skip
        new = self.out == RESULT or self.values[self.out] is None
        plain = not new or (type(result) is np.ndarray and result.flags.c_contiguous)
        if not plain or not all(_is_plain(self.values[i]) for i in compared):
            return None
        found = self._patches(kernel, args, result if new else None)
        if found is None:
            return None
        meant = (
            x.dtype if i in arrays else x if i in compared else type(x)
            for i, x in enumerate(self.values)
        )  # fmt: skip
        made = (result.shape, result.dtype, result.nbytes) if new else (None, None, 0)
        dev = kernel.device
        record = kernel.record(dev, args, None, None, 0)
        numbers = b"".join(_NUMBER.pack(v, ord(code), at, 0) for v, code, at in self.numbers)
        fixed = (
            self.site, tuple(meant), sum(1 << i for i in compared), dev.default_queue, kernel,
            record, *found, np.empty, *made, self.out, self.brief, self.block, numbers,
        )  # fmt: skip
        return _hot.Row(self.values, fixed)

    def _patches(
        self, kernel: Kernel, args: Sequence[Any], result: Any
    ) -> tuple[bytes, tuple[Any, ...]] | None:
        """Structs of each pointer argument, and those that stay; None: one is neither the memory of
        a value nor stays.
        """
        signature = kernel.signature
        pointers = [i for i, arg in enumerate(signature.args) if arg.is_pointer]
        sources = [*self.sources, *[None] * (len(pointers) - len(self.sources))]
        patches, kept = b"", []
        for at, (i, source) in enumerate(zip(pointers, sources, strict=True)):
            pointer, base = args[i], 0
            if pointer is None:
                continue
            if source == self.out and result is not None:
                source, given = RESULT, result
            else:
                given = None if source in (None, BLOCK) else self.values[source]
            if isinstance(given, np.ndarray):
                base = given.ctypes.data
                below, nbytes = space.reach(given.shape, given.strides, given.itemsize)
                start = pointer._address - (base - below)
                if start < 0 or start + pointer.nbytes > nbytes:
                    return None
            elif given is not None and isinstance(pointer, HostPointer):
                return None
            if (given is None and source != BLOCK) or isinstance(given, Constant):
                source = _FIXED
                kept.append(pointer)
            arg = signature.args[i]
            flags = _WRITTEN * arg.is_written + _SAME_PLACE * self._in_place(source)
            offset = 0 if source == BLOCK else pointer._address - base
            where = DISPATCH_HEAD.size + signature.offsets[i]
            covered = DISPATCH_HEAD.size + signature.args_nbytes + 8 * at
            patches += _PATCH.pack(source, flags, where, covered, offset)
        return patches, tuple(kept)

    def _in_place(self, source: int | None) -> bool:
        """May the result lie exactly where this value does?"""
        if not self.inplace or source is None or source < 0 or source == self.out:
            return False
        x, y = self.values[source], self.values[self.out]
        same = y is not None and (x.shape, x.strides) == (y.shape, y.strides)
        return same and bool(x.itemsize == y.itemsize)


def remember(stage: staging.Stage, call: Call, result: Any) -> None:
    """The next such call is made by C, if this one was one launch on numpy's memory."""
    constants = call.constants
    if stage.on_device or len(stage.launched) != 1 or len(constants) > 1 or not _there(stage.dev):
        return
    row = call.row(*stage.launched[0], result)
    if row is None:
        return
    recycled.begin()
    if constants:
        held = constants[0]
        held._calls = table = held._calls or _hot.Table(SETS_OF_CONSTANT)
    else:
        stage.dev.kept[KEY] = table = stage.dev.kept.get(KEY) or _hot.Table(SETS)
    table.put(row)


def planned(table: _hot.Table, call: Call, kernel: Kernel, args: Sequence[Any]) -> None:
    """The same for a call of a plan, whose table it is and whose launch took `args`."""
    if not call.constants and _there(kernel.device):
        row = call.row(kernel, args, None)
        if row is not None:
            table.put(row)


def _there(dev: Device) -> bool:
    """Does C know numpy's arrays and this device's queues, and may kernels read host memory?"""
    return dev.info.unified and numpy_layout.known() and dev.default_queue._in_c


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if type(value) in (list, tuple) else value


def _is_plain(value: Any) -> bool:
    """May C compare it with what a later call has in its place?"""
    if type(value) is tuple:
        return all(_is_plain(x) for x in value)
    return value is None or type(value) in (int, str, bool)
