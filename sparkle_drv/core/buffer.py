"""Buffer: bytes on a device, and views of them. Arrays (core/array.py) add dtype and shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sparkle_drv.core.abi.elements import ANY, READONLY
from sparkle_drv.core.closing import Closing
from sparkle_drv.core.host_pointer import Pointer
from sparkle_drv.core.storage import Storage
from sparkle_drv.core.whole_number import within
from sparkle_drv.types import Memory

if TYPE_CHECKING:
    import numpy as np

    from sparkle_drv.core.array import Array
    from sparkle_drv.core.device import Device


class Buffer(Pointer, Closing):
    """`nbytes` bytes of device memory. Made by `Device.buffer`, `view` and `sparkle_drv.wrap`.

    `offset` is where a view begins in the memory that it shares, in bytes. Using a closed buffer
    raises ValueError; using a buffer of a closed device raises DeviceLost.

    `close` never frees memory that the device still uses: the retire list frees that memory later.
    A buffer needs no lock: its extent never changes, and fences order access to its contents.

    >>> with dev.buffer(16) as buffer:
    ...     dev.default_queue.write(buffer, bytes(range(16))).wait().done
    ...     bytes(buffer.view(4, 3).map())
    True
    b'\\x04\\x05\\x06'
    """

    __slots__ = ("__weakref__", "_is_view", "offset")

    def __init__(
        self,
        storage: Storage,
        offset: int,
        nbytes: int,
        *,
        is_view: bool = False,
        readonly: bool = False,
    ) -> None:
        elements = ANY | READONLY * readonly  # arguments of any pointer type accept this buffer
        self._begin(storage, storage.address + offset, nbytes, elements)
        self._is_view = is_view
        self.offset = offset

    def __repr__(self) -> str:
        uri = self._uri()
        state = f"at {self._address:#x} on {uri}" if uri else "closed"
        return f"<Buffer {self.nbytes} bytes {state}>"

    @property
    def closed(self) -> bool:
        """True if the buffer is closed, or is a view of a closed allocation."""
        return not self._uri()

    def _uri(self) -> str:
        """Returns the URI of the buffer's device; "" if the buffer is closed."""
        device = self._storage.device  # read once: another thread may close the buffer
        return "" if device is None else device.uri

    def _open(self) -> Storage:
        storage: Storage = self._storage
        device = storage.device
        if device is None:
            owner = getattr(storage, "owner", None)  # a closed view has no Storage any more
            if owner is not None:
                owner._check_open()  # the close of the device has closed the buffer
            raise ValueError("the buffer is closed")
        device._check_open()
        return storage

    @property
    def device(self) -> Device:
        """The device that has the memory."""
        return self._open().owner

    @property
    def memory(self) -> Memory:
        """The kind of memory; HOST for wrapped host memory."""
        return self._open().memory

    @property
    def address(self) -> int:
        """The device address of the first byte."""
        self._exposed()
        return self._address

    def _exposed(self) -> Storage:
        """Returns the Storage, after it is marked as memory that others may write.

        Also computes all Arrays of the device that are not computed yet, and waits for them.
        """
        storage = self._open()
        pending = storage.owner._pending
        with pending.waiting.lock:
            storage.exposed = True
        pending.settle(wait=True)
        return storage

    def view(self, offset: int = 0, nbytes: int | None = None) -> Buffer:
        """Returns a buffer over `nbytes` bytes of this one (None: the rest), from byte `offset` on.

        Closing the allocated buffer closes its views. Closing a view leaves the others open. Raises
        ValueError (outside the buffer) and TypeError (not whole numbers).
        """
        storage = self._open()
        at = within("view: offset", offset, 0, self.nbytes)
        rest = self.nbytes - at
        n = rest if nbytes is None else within("view: nbytes", nbytes, 0, rest)
        return Buffer(storage, self.offset + at, n, is_view=True, readonly=self.readonly)

    def map(self) -> memoryview:
        """Returns the bytes as a memoryview (format "B", writable unless the buffer is readonly).

        Use the memoryview in a `with` block, whose end releases it. Work in flight may use the
        bytes at the same time, so wait for the fence of that work first.
        """
        self._exposed()
        return self._bytes()

    def _bytes(self) -> memoryview:
        """Returns what `map` returns, for code of this package.

        The caller releases the view before it submits anything else.
        """
        storage = self._open()
        _pin: Any = storage.pin()
        try:
            whole = memoryview(storage.owner._backend.map(storage.handle, storage.nbytes)).cast("B")
        finally:
            _pin = None
        part = whole[self.offset : self.offset + self.nbytes]
        return part.toreadonly() if self.readonly else part

    def write(self, array: Any, offset: int = 0) -> None:
        """Copies a numpy array (or any object with the buffer protocol, C order) to byte `offset`.

        The copy runs after all earlier work of `Device.default_queue`; the call returns when the
        copy has ended. Raises ValueError (too many bytes, a read-only buffer) and TypeError (no
        buffer protocol).
        """
        self.device.default_queue.write(self.view(offset), array).wait()

    def read(self, dtype: Any, shape: int | Sequence[int], offset: int = 0) -> np.ndarray[Any, Any]:
        """Returns a new numpy array of `dtype` and `shape`, copied from byte `offset` on.

        The copy runs after all earlier work of `Device.default_queue`. Raises ValueError (outside
        the buffer) and TypeError (no dtype or shape).
        """
        import numpy as np

        out = np.empty(shape, dtype)
        self.device.default_queue.read(self.view(offset, out.nbytes), out).wait()
        return out

    def array(self, dtype: Any, shape: int | Sequence[int], layout: str | None = None) -> Array:
        """Returns the first bytes of the buffer as a row-major Array, without a copy.

        Raises ValueError (too few bytes, not aligned for `dtype`) and TypeError (no dtype or
        shape).
        """
        from sparkle_drv.core.array import Array, extents

        self._open()
        dims, kind, nbytes = extents(shape, dtype)
        if nbytes > self.nbytes:
            raise ValueError(
                f"shape: {dims} of {kind} needs {nbytes} bytes, the buffer has {self.nbytes}"
            )
        if self._address % kind.alignment:
            raise ValueError(
                f"dtype: {kind} needs {kind.alignment}-byte alignment, "
                f"the buffer starts at {self._address:#x}"
            )
        return Array(self.view(0, nbytes), kind, dims, layout)

    def export(self) -> int:
        """Returns a new file descriptor for `Device.import_buffer`; the caller closes it.

        The descriptor stands for the whole allocation, even if this buffer is a view. Raises
        ValueError unless the memory is Memory.SHARED or was made with `exportable=True`.
        """
        storage = self._exposed()
        _pin: Any = storage.pin()
        try:
            return storage.owner._backend.export(storage.handle)
        finally:
            _pin = None

    def close(self) -> None:
        """Closes the buffer; a second call does nothing.

        Memory that the device uses is freed when the device has finished. Arrays that are not
        computed yet are computed first, because they may read this memory.
        """
        device = self._storage.device
        if device is not None and not device.closed:
            device._pending.settle()
        storage = self._storage
        if not isinstance(storage, Storage):  # a closed buffer has an empty StorageBase
            return
        if self._is_view:
            self._end()
            storage.owner._advance()  # prepared work that holds this view must be checked again
        else:
            storage.close()
            self._end()


def buffer_of(what: str, memory: Any) -> Buffer:
    """Returns `memory` if it is a Buffer, or the buffer of an Array.

    Raises TypeError for any other object, ValueError for a closed buffer.
    """
    buffer = memory if isinstance(memory, Buffer) else getattr(memory, "buffer", None)
    if not isinstance(buffer, Buffer):
        raise TypeError(f"{what}: expected a Buffer or Array, got {type(memory).__name__}")
    buffer._open()
    return buffer
