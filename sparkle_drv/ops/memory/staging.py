"""Stage: moves the arrays of a call to a device and the result back; every operation uses it.

A Stage is one call of one operation. With numpy arrays only, the call is synchronous, and `finish`
waits. If host and device share memory, host memory is passed directly, otherwise it is copied. If
an operand is a core.Array, the call is asynchronous on the device's default queue. Then numpy
arrays are copied to the device, and the result is an Array with `.fence` set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sparkle_drv.core.array import Array, is_masked
from sparkle_drv.core.commands import Commands
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.host_pointer import HostPointer, HostSpan
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.errors import OutOfDeviceMemory
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.arguments.quoting import short
from sparkle_drv.ops.shapes import space
from sparkle_drv.types import TilePlan

from . import foreign, recycled
from .constant import Constant, check_here

Host = npt.NDArray[Any]
Operand: TypeAlias = Host | Array
Shape: TypeAlias = tuple[int, ...]
MOST_KEPT = 4096
"""The most kernels that a device keeps. A device that has as many drops all before it adds one."""


def device(argument: Any) -> Device:
    if not isinstance(argument, Device):
        raise TypeError(
            f"dev: expected a Device (from sparkle_drv.open), got {type(argument).__name__}"
        )
    return argument


def of_context(x: Any) -> bool:
    """Returns whether `x` is an array of a Context, whose class this layer must not import."""
    return hasattr(x, "places") and hasattr(x, "on")


def operand(name: str, argument: Any, dev: Device | None = None) -> Operand:
    """Returns an operand as a numpy array or an Array.

    foreign.py converts arrays of other libraries. A subclass of numpy's array becomes a plain numpy
    array. Raises TypeError for everything else, also for lists, whose dtype would be a guess.
    """
    if is_masked(argument):
        raise TypeError(
            f"{short(name)}: expected an array without a mask, got a masked one: fill it first"
        )
    if isinstance(argument, np.ndarray):  # a subclass may report a wrong shape
        return argument if type(argument) is np.ndarray else np.asarray(argument)
    if isinstance(argument, Array):
        argument._ready()
        return argument
    if foreign.is_foreign(argument):
        return foreign.operand(name, argument, dev)
    kind = type(argument).__name__
    if of_context(argument):
        kind = f"a {kind}: operations of its Context take it, and x.on(uri) is its Array"
    raise TypeError(f"{short(name)}: expected a numpy array or an Array, got {kind}")


def readable(name: str, argument: Any, dev: Device | None = None) -> Any:
    """Returns an operand to read: a Constant unchanged, for others the result of `operand`."""
    return argument if isinstance(argument, Constant) else operand(name, argument, dev)


def kernel(dev: Device, name: str, plan: TilePlan | None = None) -> Kernel:
    """Returns a manifest kernel, which is loaded once per device and plan."""
    key = name, plan
    loaded: Kernel = kept(dev, "ops kernels", key, MOST_KEPT, lambda: dev.kernel(name, plan=plan))
    return loaded


def kept(dev: Device, table: str, key: Any, most: int, make: Callable[[], Any]) -> Any:
    """Returns the object for this key, which `make` makes at the first call.

    `table` names one of the device's tables, which keeps `most` objects.
    """
    # The table belongs to the device. A global table would keep devices alive, because kernels
    # refer to their device.
    there: dict[Any, Any] = dev.kept.setdefault(table, {})
    entry = there.get(key)
    if entry is None or entry.closed:
        if len(there) >= most:
            there.clear()  # launches in flight hold their kernels themselves
        entry = there[key] = make()
    return entry


def check_there(dev: Device, op: str, tag: str, among: Sequence[str]) -> None:
    """Raises NotThere if the device does not have the kernel map_<tag>, which `op` needs.

    `among` lists the type tags that `op` has on any device. The message names those of this device.
    """
    if not dev.provides(f"map_{tag}"):
        names = {tag: str(dtype) for dtype, tag in (check.DTYPES | check.STORED).items()}
        there = [names[t] for t in among if dev.provides(f"map_{t}")]
        raise check.NotThere(
            f"{op}: {dev.uri} computes {' and '.join(there)}, not {names.get(tag, tag)}"
        )


def host_empty(dev: Device, shape: Sequence[int], dtype: Any, name: str = "the result") -> Host:
    """Returns a new host array for a result.

    Raises OutOfDeviceMemory or ValueError if there is no room for the array.
    """
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    what = f"{name}: shape {tuple(shape)} of {np.dtype(dtype)} is {nbytes} bytes"
    if nbytes >= 2**63:
        raise ValueError(f"{what}, more than can be addressed: expected less than 2**63")
    most = dev.info.memory_nbytes
    if most and nbytes > most:  # an overcommitting system would not refuse
        raise OutOfDeviceMemory(f"{dev.uri}: {what}, the device has {most} bytes of memory")
    try:
        return recycled.empty(shape, dtype, nbytes)
    except MemoryError:
        raise OutOfDeviceMemory(f"{dev.uri}: {what}, which the host cannot allocate") from None


class Stage:
    """One call of an operation. `inputs` are its operands by name.

    The operand named `optional` may be None. A Constant among the operands becomes an array of its
    elements, except the operand named `packs`.
    """

    def __init__(
        self, dev: Device, operands: dict[str, Any], out: Any = None, *,
        packs: str = "", optional: str = "",
    ) -> None:  # fmt: skip
        self.dev = device(dev)
        self.queue = dev.default_queue
        self.out = None if out is None else operand("out", out, dev)
        self.returned = out  # the caller's `out` itself, which may be of a subclass of np.ndarray
        self.fence: Fence | None = None
        self.launched: list[tuple[Kernel, tuple[Any, ...]]] = []
        checked = {
            name: None if x is None and name == optional else readable(name, x, dev)
            for name, x in operands.items()
        }
        arrays = {n: x for n, x in (*checked.items(), ("out", self.out)) if isinstance(x, Array)}
        self.on_device = bool(arrays)
        self.unified = dev.info.unified
        self.in_place = self.unified and not self.on_device  # host memory is passed uncopied
        for name, x in arrays.items():
            check_here(name, x, x, dev)
            # Work on the queue of this call is in order anyway, so the call waits only for work on
            # other queues.
            fence = x.fence
            if fence is not None and fence.queue is not self.queue and not fence.done:
                self.queue.submit(Commands().wait(fence))
        if arrays:
            check_out_kind(self.out, next(iter(arrays)))
        self.inputs = {name: self._read(name, x, packs) for name, x in checked.items()}

    def _read(self, name: str, x: Any, packs: str) -> Any:
        if not isinstance(x, Constant):
            return x
        array = x.array(name, self.dev)
        if name == packs:
            return x
        if self.on_device:  # a copy to the host would make the call synchronous
            return array
        host = array.numpy()
        host.flags.writeable = False
        return host

    def pointer(self, x: Any) -> Any:
        """Returns the argument of a launch for `x`, as row-major memory."""
        if x is None or isinstance(x, (Array, Constant)):
            return x
        return row_major(self.dev, x) if self.in_place else self.moved(x)

    def moved(self, x: Host) -> Array:
        """Returns a copy of `x` on the device, which later launches can read."""
        copied = self.dev.empty(x.shape, x.dtype)
        if x.size and self.unified:
            copied.numpy()[...] = x  # nobody else uses this memory yet
        elif x.size:
            self.queue.write(copied.buffer, row_major(self.dev, x))
        return copied

    def constant(self, x: Host) -> Any:
        """Returns the argument of a launch for `x`. The package made `x` and never changes it."""
        return x if self.unified else self.moved(x)

    def copy(self, x: Operand, layout: str | None = None) -> Any:
        """Returns a copy of `x`, in the `out` of the caller or, without `out`, in new memory."""
        if self.on_device:
            layout = layout or getattr(x, "layout", None)
            target = self.target(tuple(x.shape), x.dtype, layout=layout)
            self._copied(target.pointer, self.pointer(x))
            return self.finish(target)
        if self.out is not None:
            check_out(self.out, tuple(x.shape), np.dtype(x.dtype), layout)
        copied: Any = host_empty(self.dev, x.shape, x.dtype)
        copied[...] = x
        return self.finish(Target(copied))

    def _copied(self, to: Array, x: Array) -> None:
        # The copy takes only the bytes of the arrays, because their buffers may be longer.
        if to.nbytes:
            commands = Commands().copy(to.buffer.view(0, to.nbytes), x.buffer.view(0, to.nbytes))
            self.fence = self.queue.submit(commands)

    def matrix(self, x: Any) -> tuple[Any, int, int]:
        """Returns (pointer, row stride, column stride) of a 2-D operand; strides in elements.

        The operand is copied if a launch cannot take its strides or its memory.
        """
        strides = element_strides(x) if isinstance(x, np.ndarray) and self.in_place else None
        if strides is not None:
            return span(self.dev, x)[0], *strides
        return self.pointer(x), max(1, x.shape[1]), 1

    def target(
        self, shape: Shape, dtype: Any, *, rows: bool = False, inplace: bool = False,
        layout: str | None = None, strided: bool = False, order: Sequence[int] = (),
    ) -> Target:  # fmt: skip
        """Returns the memory for the result: `out`, or a temporary that `finish` copies to `out`.

        rows: True if the kernel takes a row stride. inplace: True if the kernel reads element i of
        all inputs before it writes element i, so that `out` may be an input. strided: True if the
        kernel takes any strides. order: the memory order of the dimensions of a new host array,
        outermost first; row-major by default.
        """
        out = self.out
        if out is not None:
            check_out(out, shape, np.dtype(dtype), layout)
        if out is None or self._overlaps(inplace):
            pass
        elif isinstance(out, Array):
            return Target(out, layout)
        elif self.unified:
            plain = out.flags.c_contiguous and out.flags.aligned
            if plain or (strided and not shares_itself(out)):
                return Target(out, direct=True)
            strides = element_strides(out) if rows else None
            if strides is not None and strides[1] == 1 and strides[0] >= shape[1]:
                return Target(span(self.dev, out)[0], row=strides[0], direct=True)
        if order and self.in_place:
            made = host_empty(self.dev, [shape[d] for d in order], dtype)
            return Target(made.transpose(np.argsort(order)))
        return self.temporary(shape, dtype, layout=layout)

    def temporary(self, shape: Shape, dtype: Any, *, layout: str | None = None) -> Target:
        """Returns new memory, which one launch writes and another reads."""
        if self.in_place:
            return Target(host_empty(self.dev, shape, dtype))
        return Target(self.dev.empty(shape, dtype, layout), layout)

    def _overlaps(self, inplace: bool) -> bool:
        # A call with Arrays copies its numpy operands first, so only Arrays can overlap `out`.
        return any(
            overlap(self.out, x) and not (inplace and _same_elements(self.out, x))
            for x in self.inputs.values()
        )

    def launch(self, kernel: Kernel, *args: Any) -> None:
        args = tuple(HostPointer(self.dev, a) if isinstance(a, np.ndarray) else a for a in args)
        self.fence = self.queue.launch(kernel, *args)
        self.launched.append((kernel, args))

    def finish(self, target: Target) -> Any:
        """Returns the result of the operation.

        If an operand is an Array, the result is an Array, whose computation may not have ended. If
        all operands are numpy arrays, this method waits until the work has ended. It then returns
        `out` if the caller gave one, else a numpy array.
        """
        memory, out = target.pointer, self.out
        if self.on_device:
            if isinstance(out, Array) and memory is not out:
                self._copied(out, memory)
                memory = out
            if self.fence is not None:
                memory.fence = self.fence
            memory.layout = memory.layout or target.layout
            return memory
        if self.fence is not None:
            self.fence.wait()
        result = memory.numpy() if isinstance(memory, Array) else memory
        if isinstance(out, np.ndarray) and not target.direct:
            out[...] = result
        return result if out is None else self.returned


class Target:
    """The memory that a launch writes.

    pointer: the argument of the launch. row: the row stride in elements. direct: True if the memory
    is that of the caller's `out`.
    """

    __slots__ = ("direct", "layout", "pointer", "row")

    def __init__(
        self, pointer: Any, layout: str | None = None, *, row: int = 0, direct: bool = False
    ) -> None:
        self.pointer, self.layout, self.direct = pointer, layout, direct
        self.row = row or max((1, *pointer.shape[-1:]))


def check_out_kind(out: Any, name: str) -> None:
    """Raises TypeError if `out` is a numpy array although the operand `name` is an Array."""
    if isinstance(out, np.ndarray):
        raise TypeError(f"out: expected an Array because {short(name)} is one, got a numpy array")


def check_out(out: Any, shape: Shape, dtype: Any, layout: str | None) -> None:
    check.same_dtype("out", np.dtype(out.dtype), "the result", dtype)
    check.shape("out", tuple(out.shape), shape, "for this result")
    if isinstance(out, np.ndarray):
        if not out.flags.writeable:
            raise ValueError("out: expected a writable array, got a read-only one")
        if out.size and any(s == 0 and d > 1 for s, d in zip(out.strides, out.shape, strict=True)):
            raise ValueError("out: expected separate elements, got a broadcast view")
    elif getattr(out, "readonly", False):  # arrays of a Context have no `readonly`
        raise ValueError("out: expected a writable Array, got a read-only one")
    elif layout is not None and out.layout not in (None, layout):
        raise ValueError(f"out: expected layout {layout}, got {out.layout}")


def shares_itself(x: Host) -> bool:
    """Returns whether elements of `x` may share memory.

    An `out` for which this is True gets its elements from a temporary, one after another, as in
    numpy. If elements share memory, the last one copied remains.
    """
    extent = x.itemsize
    for step, size in sorted((abs(s), d) for s, d in zip(x.strides, x.shape, strict=True) if d > 1):
        if step < extent:
            return bool(x.size)
        extent += step * (size - 1)
    return False


def row_major(dev: Device, x: Host) -> Host:
    """Returns `x` if it is row-major and aligned, otherwise a row-major, aligned copy.

    Raises the errors of host_empty.
    """
    if x.flags.c_contiguous and x.flags.aligned:
        return x
    made = host_empty(dev, x.shape, x.dtype, "an operand, row-major")
    made[...] = x
    return made


def overlap(x: Any, y: Operand) -> bool:
    """Returns whether the memory ranges of `x` and `y` overlap, from first to last byte.

    Only bounds are compared, because an exact answer can take forever. If one is a numpy array and
    the other an Array, the result is False, because a call with both copies the numpy array.
    """
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        return np.may_share_memory(x, y)
    return isinstance(x, Array) and isinstance(y, Array) and meets(x, (y,))


def meets(x: Any, others: Sequence[Any]) -> bool:
    """Returns whether a pointer of a launch shares a byte with one of `others`, pointers or None.

    The function compares addresses. They identify memory on every device, whoever allocated or
    wrapped the memory. The result is False for memory that is closed or of another device, because
    a launch refuses such memory. Raises AttributeError if an argument is not a pointer.
    """
    start = x._address
    end = start + x.nbytes
    for y in others:
        if y is not None and y._address < end and start < y._address + y.nbytes:
            of = x._storage.device
            if of is not None and of is y._storage.device and x.nbytes and y.nbytes:
                return True
    return False


def element_strides(x: Host) -> tuple[int, int] | None:
    """Returns (row stride, column stride) of a 2-D array in elements; None if it must be copied.

    An axis of length 1 gets the stride of a row-major array, because its own stride has no meaning.
    """
    rows, columns = x.shape
    itemsize = x.itemsize
    if not x.flags.aligned or x.strides[0] % itemsize or x.strides[1] % itemsize:
        return None
    column = x.strides[1] // itemsize if columns > 1 else 1
    row = x.strides[0] // itemsize if rows > 1 else max(1, columns * column)
    ok = 0 < row <= check.U32 and 0 < column <= check.U32
    return (row, column) if ok else None


def span(dev: Device, x: Host) -> tuple[HostSpan, int]:
    """Returns (the memory of all elements of `x`, the offset of the first element in it).

    The offset is in bytes; it is not 0 if `x` has negative strides.
    """
    below, nbytes = space.reach(x.shape, x.strides, x.itemsize)
    return HostSpan(dev, x, below, nbytes), below


def _same_elements(out: Any, x: Any) -> bool:
    """Returns whether each element of `out` is at the address of the same element of `x`."""
    if tuple(out.shape) != tuple(x.shape) or out.dtype.itemsize != x.dtype.itemsize:
        return False
    if isinstance(out, Array):
        return bool(out._address == x._address)
    return bool(out.ctypes.data == x.ctypes.data and out.strides == x.strides)
