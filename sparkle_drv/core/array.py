"""Array: a buffer with dtype, shape and layout, row-major. Operations take and return Arrays.

On unified devices an Array shares memory with numpy and every DLPack consumer. On CUDA devices it
shares memory with consumers of DLPack or the CUDA array interface. On other devices these protocols
copy to the host.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sparkle_drv.core import interop
from sparkle_drv.core.abi.elements import READONLY, of_dtype
from sparkle_drv.core.array_shape import Shaped
from sparkle_drv.core.buffer import Buffer
from sparkle_drv.core.closing import Closing
from sparkle_drv.core.deferred.operators import Operators
from sparkle_drv.core.deferred.provider import namespace
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.host_pointer import Pointer
from sparkle_drv.core.whole_number import several

if TYPE_CHECKING:
    import numpy as np

    from sparkle_drv.core.deferred.provider import Thunk
    from sparkle_drv.core.device import Device


def is_masked(x: Any) -> bool:
    """Returns whether `x` is a numpy.ma.MaskedArray, which needs numpy.ma to be imported.

    The function does not use `np.ma`, which since numpy 2.4 imports the module on first use. Ctrl-C
    during that import would leave the import lock held, and every later call would wait for it.
    """
    masked = getattr(sys.modules.get("numpy.ma.core"), "MaskedArray", None)
    return masked is not None and isinstance(x, masked)


def host_array(what: str, exporter: Any) -> np.ndarray[Any, Any]:
    """Returns a numpy view of a numpy array or of a CPU DLPack exporter.

    The view has numpy's own class, because a subclass may report a wrong size. Raises TypeError for
    other objects.
    """
    import numpy as np

    array: np.ndarray[Any, Any]
    if type(exporter) is np.ndarray:
        array = exporter
    elif is_masked(exporter):
        raise TypeError(
            f"{what}: expected an array without a mask, got a masked one: fill it first"
        )
    elif isinstance(exporter, np.ndarray):
        array = np.asarray(exporter)
    elif hasattr(exporter, "__dlpack__"):
        try:
            array = np.from_dlpack(exporter)
        except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
            bits = _bfloat16_bits(exporter)  # numpy cannot import bfloat16 by DLPack
            if bits is None:
                raise TypeError(
                    f"{what}: expected a host array, its DLPack export says: {error}"
                ) from error
            array = bits.view(bfloat16(what))
    else:
        # Read only once: a property runs its owner's code each time.
        interface = getattr(exporter, "__array_interface__", None)
        if interface is None:
            raise TypeError(
                f"{what}: expected a numpy array or DLPack exporter, got {type(exporter).__name__}"
            )
        array = np.asarray(SimpleNamespace(__array_interface__=interface, owner=exporter))
    check_fixed(f"{what}: dtype ", array.dtype)
    return array


def _bfloat16_bits(exporter: Any) -> np.ndarray[Any, Any] | None:
    """Returns a view of an exporter's bfloat16 elements as 16-bit numbers.

    Returns None for elements of another type and for memory that the host cannot read.
    """
    import numpy as np

    from . import dlpack_capsule  # imported late: ctypes takes time

    try:
        kind, raw = dlpack_capsule.host_interface(exporter)
    except TypeError:
        return None
    return np.asarray(raw) if kind == "bf" else None


def check_fixed(where: str, dtype: np.dtype[Any]) -> None:
    if dtype.hasobject or dtype.itemsize == 0:
        raise TypeError(f"{where}expected elements of a fixed size, got {dtype}")


def shape_of(shape: Any) -> tuple[int, ...]:
    """Returns an int or a sequence of ints, all >= 0, as a tuple. Raises TypeError for other types,
    ValueError for a negative int.
    """
    dims = several("shape", shape, "whole numbers")
    if any(d < 0 for d in dims):
        raise ValueError(f"shape: expected dimensions of 0 or more, got {dims}")
    return dims


def bfloat16(name: str) -> np.dtype[Any]:
    """Returns the bfloat16 dtype of ml_dtypes, because numpy has none.

    Raises TypeError, whose message names the argument `name`, if ml_dtypes is not installed.
    """
    import numpy as np

    try:
        found: np.dtype[Any] = np.dtype(importlib.import_module("ml_dtypes").bfloat16)
    except ImportError:
        raise TypeError(f"{name}: bfloat16 needs the package ml_dtypes") from None
    return found


def dtype_of(dtype_like: Any) -> np.dtype[Any]:
    """Returns the numpy dtype that `dtype_like` stands for; "bf16" is bfloat16. Raises TypeError if
    `dtype_like` stands for no dtype.
    """
    import numpy as np

    if type(dtype_like) is str and dtype_like == "bf16":
        return bfloat16("dtype")
    try:
        dtype: np.dtype[Any] = np.dtype(dtype_like)
    except TypeError:
        got = repr(dtype_like[:60]) if isinstance(dtype_like, str) else type(dtype_like).__name__
        raise TypeError(f"dtype: expected a numpy dtype, got {got}") from None
    return dtype


def extents(shape: Any, dtype: Any) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Returns (shape, dtype, bytes) of an array to be made. Raises TypeError or ValueError for a
    wrong shape or dtype.
    """
    dims, kind = shape_of(shape), dtype_of(dtype)
    check_fixed("dtype: ", kind)
    return dims, kind, math.prod(dims) * kind.itemsize


class Array(Pointer, Shaped, Closing, Operators):
    """Row-major elements of one dtype; `Device.array`, `Device.empty`, `Buffer.array` make them.

    An Array has a `dtype` (numpy's), `shape`, `nbytes`, `layout` (such as "NCHW", or None) and
    `buffer` (the memory). `fence` is the fence of the operation that fills the array, or None.
    `numpy()`, `__array__`, `__array_interface__` and `__dlpack__` wait for that fence first.

    Operators and numpy's ufuncs build expressions. The result is an Array that has no memory at
    first. One launch computes the expression when the memory is needed, or before other work writes
    to memory of the device. Several threads may read such an Array.

    >>> x = dev.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    >>> y = (x * 2 + 1)[:, 1:]
    >>> y.shape, y.dtype
    ((2, 2), dtype('float32'))
    >>> y.numpy()
    array([[ 3.,  5.],
           [ 9., 11.]], dtype=float32)
    """

    __slots__ = (
        "__weakref__", "_buffer", "_exported", "_fence", "_origin", "_thunk", "dtype", "layout",
        "shape",
    )  # fmt: skip

    def __init__(
        self,
        buffer: Buffer,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        layout: str | None = None,
    ) -> None:
        self._buffer: Buffer | None = buffer
        self._thunk: Thunk | None = None
        self.dtype = dtype
        self.shape = shape
        self.layout = layout
        self._fence: Fence | None = None
        self._origin = ""
        self._exported: np.ndarray[Any, Any] | None = None
        elements = of_dtype(dtype) | buffer._elements & READONLY
        nbytes = math.prod(shape) * dtype.itemsize
        self._begin(buffer._storage, buffer._address, nbytes, elements)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Returns the array API standard for Arrays, `sparkle_drv.ops.array_api`.

        Raises ValueError for a version of the standard that is not implemented.
        """
        return namespace(api_version)

    @classmethod
    def _deferred(cls, thunk: Thunk, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """Returns an Array without memory, which `thunk` will compute."""
        array = cls.__new__(cls)
        array._buffer = array._fence = array.layout = array._exported = None
        array._origin = ""
        array._thunk, array.dtype, array.shape = thunk, dtype, shape
        thunk.device._pending.add(thunk.device, array)
        return array

    def _ready(self) -> None:
        thunk = self._thunk
        if thunk is not None:
            thunk.device._pending.compute(thunk.device, self)

    def _take(self, computed: Array) -> None:
        """Takes over the memory of `computed`, the Array that this Array's thunk has computed."""
        buffer = computed.buffer
        self._begin(buffer._storage, buffer._address, computed.nbytes, computed._elements)
        self._buffer, self._fence = buffer, computed._fence
        # Set last: when _thunk is None, other threads read the fields above without the lock.
        self._thunk = None

    @property
    def buffer(self) -> Buffer:
        """The memory of the array. Reading `buffer` first computes an Array that has no memory yet.

        Raises ValueError if the array is closed.
        """
        if self._thunk is not None:
            self._ready()
        buffer = self._buffer
        if buffer is None:
            raise ValueError("the buffer is closed")
        return buffer

    @property
    def fence(self) -> Fence | None:
        """The fence of the operation that fills the array; None if there is no such operation."""
        self._ready()
        return self._fence

    @fence.setter
    def fence(self, fence: Fence | None) -> None:
        self._ready()
        self._fence = fence

    @property
    def nbytes(self) -> int:
        """The size of all elements in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def explain(self) -> str:
        """Returns one line: how the expression will be computed, or why the host computed it.

        The line is "" for an Array that does not wait and that the host did not compute.
        """
        thunk = self._thunk
        return self._origin if thunk is None else thunk.explain()

    def __repr__(self) -> str:
        thunk = self._thunk
        if thunk is not None:
            where = f"waits on {thunk.device.uri}"
        else:
            uri = "" if self._buffer is None else self._buffer._uri()
            where = f"on {uri}" if uri else "closed"
        layout = f" {self.layout}" if self.layout else ""
        return f"<Array {self.dtype}{list(self.shape)}{layout} {where}>"

    @property
    def device(self) -> Device:
        """The device that has the array's memory; raises ValueError if the array is closed."""
        thunk = self._thunk
        return self.buffer.device if thunk is None else thunk.device

    @property
    def closed(self) -> bool:
        """True if the array's buffer is closed, or is a view of a closed allocation."""
        if self._thunk is not None:
            return False
        return self._buffer is None or self._buffer.closed

    def reshape(self, *shape: Any) -> Array:
        """Returns an Array over the same memory with another shape of the same size.

        The result has the same fence and no layout. One dimension may be -1; its size then follows
        from the others. Raises ValueError (another size, a closed array) and TypeError (not whole
        numbers).
        """
        dims = list(shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape)
        if dims.count(-1) == 1:
            rest = -math.prod(dims)
            dims[dims.index(-1)] = self.size // rest if rest else 0
        new = shape_of(dims)
        if math.prod(new) != self.size:
            raise ValueError(
                f"shape: expected {self.size} elements as in {self.shape}, got {tuple(shape)}"
            )
        array = self.buffer.array(self.dtype, new)
        array.fence = self.fence
        return array

    def to_device(self, device: Device, /, *, stream: None = None) -> Array:
        """Returns a copy on `device`, or this Array itself if `device` has its memory.

        Raises the errors of `numpy` and `Device.array`.
        """
        return self if device is self.device else device.array(self.numpy(), self.layout)

    def ravel(self) -> Array:
        """Returns an Array over the same memory with one dimension; see `reshape` for errors."""
        return self.reshape(-1)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Returns the elements as a numpy array of this dtype and shape, after waiting for `fence`.

        The numpy array is a view on unified devices, a copy on others. A view stays valid after
        `close`: the memory is freed after its last view. Raises ValueError if the array is closed,
        and the errors of `Fence.wait`.
        """
        import numpy as np

        self.buffer._open()
        fence = self.fence
        if fence is not None:
            fence.wait()
        if not self.device.info.unified:
            return self.buffer.read(self.dtype, self.shape)
        view: np.ndarray[Any, Any] = np.ndarray(self.shape, self.dtype, self.buffer.map())
        return view

    def _host(self) -> np.ndarray[Any, Any]:
        """Returns what `numpy` returns, for code of this package.

        The caller neither keeps the view nor writes to it.
        """
        import numpy as np

        if self.fence is not None:
            self.fence.wait()
        buffer = self.buffer
        if not self.device.info.unified:
            return buffer.read(self.dtype, self.shape)
        host: np.ndarray[Any, Any] = np.ndarray(self.shape, self.dtype, buffer._bytes())
        return host

    def get(self, *at: int) -> Any:
        """Returns the element at an index as a numpy scalar, after waiting for `fence`.

        For example: `x.get(2, 0)`. Only this element is copied to the host. A negative index counts
        from the end. Raises IndexError (outside, or not one index per dimension), TypeError (not an
        int), and the errors of `numpy`.
        """
        before = self._number(at) * self.dtype.itemsize
        self.buffer._open()
        if self.fence is not None:
            self.fence.wait()
        return self.buffer.read(self.dtype, (), before)[()]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        import numpy as np

        host = self.numpy()
        if copy is False and dtype is not None and np.dtype(dtype) != host.dtype:
            raise ValueError(
                f"copy: expected None or True to convert {host.dtype} to {np.dtype(dtype)}"
            )
        return host.astype(host.dtype if dtype is None else dtype, copy=bool(copy))

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The array interface, version 3, over the memory itself; only on unified devices.

        On other devices the attribute is missing, so numpy calls `__array__`, which copies.
        """
        if not self.device.info.unified:
            raise AttributeError(
                f"expected an array in host memory, got one in memory of {self.device.uri}"
            )
        if self.dtype.kind == "V":  # the interface has no bfloat16, so numpy calls __array__
            raise AttributeError(f"the array interface cannot describe {self.dtype}")
        self._exported = self.numpy()  # keeps the memory: consumers keep only this Array
        return self._exported.__array_interface__

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface, version 3; a reader must wait for the stream that it names."""
        return interop.interface(self)

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
        copy: Any = None,
    ) -> Any:  # fmt: skip
        options = {
            "stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy,
        }  # fmt: skip
        if not self.device.info.unified:
            return interop.export(self, **options)
        given = {name: value for name, value in options.items() if value is not None}
        if self.dtype.kind == "V":  # numpy cannot export bfloat16
            return interop.export_host(self.numpy(), **given)
        return self.numpy().__dlpack__(**given)

    def __dlpack_device__(self) -> tuple[int, int]:
        if self.device.info.unified:
            return self.numpy().__dlpack_device__()
        return interop.place_of(self.device)

    def close(self) -> None:
        """Closes the array's buffer; a second call does nothing.

        If `Buffer.array` made this Array, the Array has a view of that Buffer. Only the view is
        closed, the Buffer stays open.
        """
        thunk = self._thunk
        if thunk is not None:  # nobody has read the array, so it is never computed
            thunk.device._pending.waiting.drop(self)
        if self._buffer is not None:
            self._buffer.close()
            self._end()
