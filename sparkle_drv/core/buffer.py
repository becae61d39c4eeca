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

    `offset` is where a view begins in the memory that it shares. Whatever uses a closed buffer
    raises ValueError, one whose device is closed DeviceLost.

    Memory still in use by the device is never freed: `close` hands it to the retire list. Not
    locked: what it covers is fixed at creation, its contents are the business of fences.
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
        elements = ANY | READONLY * readonly  # bytes stand for elements of any type
        self._begin(storage, storage.address + offset, nbytes, elements)
        self._is_view = is_view
        self.offset = offset

    def __repr__(self) -> str:
        uri = self._uri()
        state = f"at {self._address:#x} on {uri}" if uri else "closed"
        return f"<Buffer {self.nbytes} bytes {state}>"

    @property
    def closed(self) -> bool:
        """Is it closed, by itself or with what it is a view of?"""
        return not self._uri()

    def _uri(self) -> str:
        """Of where it lives; "": it is closed."""
        device = self._storage.device  # looked at once: another thread may close
        return "" if device is None else device.uri

    def _open(self) -> Storage:
        storage: Storage = self._storage
        device = storage.device
        if device is None:
            raise ValueError("the buffer is closed")
        device._check_open()
        return storage

    @property
    def device(self) -> Device:
        """Where it lives."""
        return self._open().owner

    @property
    def memory(self) -> Memory:
        """What kind of memory it is; HOST for wrapped memory."""
        return self._open().memory

    @property
    def address(self) -> int:
        """The device address of the first byte."""
        self._exposed()
        return self._address

    def _exposed(self) -> Storage:
        """Others may write to the memory from now on: what waits to be computed is, first."""
        storage = self._open()
        storage.exposed = True
        storage.owner._pending.settle(storage.owner)
        return storage

    def view(self, offset: int = 0, nbytes: int | None = None) -> Buffer:
        """A buffer over `nbytes` bytes of this one (None: the rest) from `offset` bytes on.

        Closing what was allocated closes its views; closing a view leaves the rest open. Raises
        ValueError (outside the buffer) and TypeError.
        """
        storage = self._open()
        at = within("view: offset", offset, 0, self.nbytes)
        rest = self.nbytes - at
        n = rest if nbytes is None else within("view: nbytes", nbytes, 0, rest)
        return Buffer(storage, self.offset + at, n, is_view=True, readonly=self.readonly)

    def map(self) -> memoryview:
        """The bytes as a memoryview ("B", writable unless readonly), for a `with` block: its end
        releases them.

        Ordering against work in flight is the caller's: wait for its fence first.
        """
        self._exposed()
        return self._bytes()

    def _bytes(self) -> memoryview:
        """`map` for readers of ours, who let go of it before anything else is submitted."""
        storage = self._open()
        with storage:
            whole = memoryview(storage.owner._backend.map(storage.handle, storage.nbytes)).cast("B")
        part = whole[self.offset : self.offset + self.nbytes]
        return part.toreadonly() if self.readonly else part

    def write(self, array: Any, offset: int = 0) -> None:
        """Copy a numpy array (or any buffer, C order) to `offset` bytes from the start.

        Returns when it is there, after all that `Device.default_queue` was given before. Raises
        ValueError (does not fit, read-only) and TypeError.
        """
        self.device.default_queue.write(self.view(offset), array).wait()

    def read(self, dtype: Any, shape: int | Sequence[int], offset: int = 0) -> np.ndarray[Any, Any]:
        """A new numpy array of `dtype` and `shape` copied from `offset` bytes on.

        After all that `Device.default_queue` was given before. Raises ValueError (outside the
        buffer) and TypeError.
        """
        import numpy as np

        out = np.empty(shape, dtype)
        self.device.default_queue.read(self.view(offset, out.nbytes), out).wait()
        return out

    def array(self, dtype: Any, shape: int | Sequence[int], layout: str | None = None) -> Array:
        """The first bytes as an Array, row-major, without a copy.

        Raises ValueError (too few bytes, not aligned for `dtype`) and TypeError.
        """
        from sparkle_drv.core.array import Array, extents

        self._open()
        dims, kind, nbytes = extents(shape, dtype)
        if nbytes > self.nbytes:
            raise ValueError(
                f"shape: {dims} of {kind} are {nbytes} bytes, the buffer has {self.nbytes}"
            )
        if self._address % kind.alignment:
            raise ValueError(
                f"dtype: {kind} wants {kind.alignment}-byte alignment, "
                f"the buffer starts at {self._address:#x}"
            )
        return Array(self.view(0, nbytes), kind, dims, layout)

    def export(self) -> int:
        """A new file descriptor, the caller's to close, for another `Device.import_buffer`.

        It stands for the whole allocation, also of a view. ValueError unless Memory.SHARED, or made
        as `exportable`.
        """
        storage = self._exposed()
        with storage:
            return storage.owner._backend.export(storage.handle)

    def close(self) -> None:
        """Idempotent. Memory in use is freed when the device has done with it.

        Expressions that wait to be computed are computed first: they may read this memory.
        """
        device = self._storage.device
        if device is not None and not device.closed:
            device._pending.settle(device, wait=False)
        storage = self._end()
        if storage.device is None:
            return
        if self._is_view:
            storage.owner._advance()  # prepared work that holds this view must look again
        else:
            storage.close()


def buffer_of(what: str, given: Any) -> Buffer:
    """A Buffer, or that of an Array; TypeError otherwise, ValueError once it is closed."""
    buffer = given if isinstance(given, Buffer) else getattr(given, "buffer", None)
    if not isinstance(buffer, Buffer):
        raise TypeError(f"{what}: a Buffer or Array is wanted, got {type(given).__name__}")
    buffer._open()
    return buffer
