"""Memory shared with other libraries of the process, without copies: host arrays, and on devices
that have it (backends/abilities.py, SharesStreams) DLPack and the CUDA array interface, both ways.

Whoever takes memory names a stream, and whoever gives it orders the work that it has in flight
before that stream; the host waits for nothing. What is shared is ordered at that moment only: work
that either side submits later is the caller's to order, by `Queue.wait_stream` and `order_stream`.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any

from sparkle_drv.core.abi.elements import BORROWED, READONLY, of_kind
from sparkle_drv.core.host_pointer import HostMemory
from sparkle_drv.errors import check

if TYPE_CHECKING:
    from sparkle_drv.backends.abilities import SharesStreams
    from sparkle_drv.core.array import Array
    from sparkle_drv.core.buffer import Buffer
    from sparkle_drv.core.device import Device
    from sparkle_drv.core.queue import Queue

NO_STREAM = -1
"""DLPack: the consumer wants no ordering."""
MOST = 1 << 64
"""Addresses and handles are below it."""
OLD_DEFAULT = 1
"""The default stream of the old kind: what DLPack means by None."""


def wrap(device: Device, array: Any) -> Buffer:
    """`array`'s memory as a buffer of `device`, without a copy; the array is kept alive.

    Host arrays (numpy, any CPU DLPack exporter); on CUDA devices also what is in their memory
    (torch, CuPy, JAX, anything with DLPack or `__cuda_array_interface__`): work that their producer
    has in flight is ordered before all open queues of `device`.

    Raises TypeError for anything else, ValueError for an array that is not C-contiguous.
    """
    from sparkle_drv.core.device import Device

    if not isinstance(device, Device):
        raise TypeError(f"device: a Device is wanted, got {type(device).__name__}")
    return device.wrap(array)


def place_of(device: Device) -> tuple[int, int] | None:
    """The device's (type, id) in DLPack's terms; None where nothing but host memory is shared."""
    shares = device._abilities.shares_streams
    return shares.dlpack if shares is not None else None


class Borrowed:
    """Somebody else's memory on this device, in a pointer's place: what Kernel.record reads."""

    __slots__ = (
        "_address", "_elements", "_readonly", "_storage", "contiguous", "dtype", "nbytes", "owner",
    )  # fmt: skip
    closed = False

    def __init__(
        self, device: Device, address: int, nbytes: int, kind: str, itemsize: int,
        contiguous: bool, readonly: bool, owner: object,
    ) -> None:  # fmt: skip
        self._address, self.nbytes, self.owner = address, nbytes, owner
        self._readonly, self.contiguous = readonly, contiguous
        self.dtype = f"{kind}{itemsize}"
        bits = of_kind("i", 2) if self.dtype == "bf2" else of_kind(kind, itemsize)
        self._elements = bits | BORROWED | READONLY * readonly
        self._storage = HostMemory(device)

    @property
    def device(self) -> Device:
        """Whose memory it is."""
        device: Device = self._storage.device
        return device

    @property
    def readonly(self) -> bool:
        """Must it not be written?"""
        return self._readonly


def borrowed(queue: Queue, given: Any) -> Borrowed | None:
    """Memory of the queue's device behind a foreign array, ordered before the queue's next work.

    None when it is no such array: another device's, the host's, or none at all. Raises TypeError
    and ValueError for one that is broken, is strided, or names a stream that there is not.
    """
    place = place_of(queue.device)
    if place is None:
        return None
    if hasattr(given, "__dlpack__") and hasattr(given, "__dlpack_device__"):
        kind, index = given.__dlpack_device__()
        if (int(kind), int(index)) != place:
            return None
        found = _by_dlpack(queue, given, place)
    elif hasattr(given, "__cuda_array_interface__"):
        found = _by_interface(queue, given)
    else:
        return None
    if not found.contiguous:
        raise ValueError("a C-contiguous array is wanted; nothing here makes copies")
    return found


def _by_dlpack(queue: Queue, given: Any, place: tuple[int, int]) -> Borrowed:
    from sparkle_drv.core import dlpack_capsule  # not before it is needed: ctypes takes its time

    try:
        taken = dlpack_capsule.take(given.__dlpack__(stream=queue.stream))
    except Exception as error:  # an exporter's code may raise anything
        raise TypeError(f"its DLPack export says: {error}") from None
    if taken.device != place:
        raise TypeError(f"its DLPack capsule is of device {taken.device}, it said {place}")
    return Borrowed(
        queue.device, taken.address, taken.nbytes, taken.kind, taken.itemsize,
        contiguous(taken.shape, taken.strides), False, taken.owner,
    )  # fmt: skip


def _by_interface(queue: Queue, given: Any) -> Borrowed:
    """The CUDA array interface, versions 0 to 3; a stream is in the last alone."""
    import numpy as np

    said = given.__cuda_array_interface__
    try:
        shape, (address, readonly) = tuple(map(int, said["shape"])), said["data"]
        dtype = np.dtype(said["typestr"])
        strides, stream = said.get("strides"), said.get("stream")
        even = contiguous(shape, strides, dtype.itemsize)
        nbytes, address = math.prod(shape) * dtype.itemsize, int(address or 0)
        if said.get("mask") is not None:
            raise ValueError("masked")
        if min(shape, default=0) < 0:
            raise ValueError(f"shape {shape}")
        if address < 0 or address + nbytes > MOST:
            raise ValueError(f"{nbytes} bytes at {address:#x}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TypeError(f"its __cuda_array_interface__ cannot be used: {error!r}") from None
    if nbytes and not _shares(queue.device).owns(address):  # the interface does not say whose it is
        raise ValueError(f"{address:#x} is no memory of {queue.device.uri}")
    if stream is not None:
        queue.wait_stream(stream)
    kind = dtype.kind if dtype.isnative else ""
    return Borrowed(
        queue.device, address, nbytes, kind, dtype.itemsize, even, bool(readonly), given
    )


def adopt(device: Device, array: Any) -> tuple[Any, Borrowed] | None:
    """(the backend's allocation, what it stands for) for `Device.wrap`; None as `borrowed`."""
    queue = device.default_queue if place_of(device) else None
    found = borrowed(queue, array) if queue is not None else None
    if queue is None or found is None:
        return None
    for other in device._snapshot(device._queues):
        if other is not queue and not other.closed:
            other.wait_stream(queue.stream)
    shares = _shares(device)
    return shares.adopt(found._address, found.nbytes, found.owner), found


def export(array: Array, stream: Any, dl_device: Any, copy: Any) -> Any:
    """`array` as a DLPack capsule, the device's work ordered before `stream`.

    Its memory is kept until the consumer lets go, also when the array is closed before.
    """
    from sparkle_drv.core import dlpack_capsule

    device, place = array.device, place_of(array.device)
    if place is None:
        raise BufferError(f"{device.uri} memory is not host memory; use numpy() for a copy")
    if array.readonly:
        raise BufferError("the array is read-only, which DLPack cannot say")
    if copy:
        raise BufferError("DLPack: an export is never a copy here")
    if dl_device is not None and tuple(map(int, dl_device)) != place:
        raise BufferError(f"DLPack: the array is on {device.uri}, {place}, not on {dl_device}")
    if stream != NO_STREAM:
        order(device, OLD_DEFAULT if stream is None else stream)
    with contextlib.ExitStack() as stack:
        storage = array.buffer._open()
        stack.enter_context(storage.pinned())
        kept = contextlib.ExitStack()
        address = array.buffer.address
        made = dlpack_capsule.capsule(address, place, array.dtype, array.shape, kept.close)
        kept.push(stack.pop_all())
    return made


def order(device: Device, stream: Any) -> None:
    """All work that `device` has in flight comes before what `stream` is given from now on."""
    checked(stream)
    for queue in device._snapshot(device._queues):
        if not queue.closed and queue.reached < queue.submitted:
            queue.order_stream(stream)


def interface(array: Array) -> dict[str, Any]:
    """`__cuda_array_interface__`, version 3, for arrays on CUDA devices."""
    device = array.device
    place = place_of(device)
    if place is None or place[0] != 2:  # kDLCUDA
        raise AttributeError(f"{device.uri} is no CUDA device")
    queue, busy = device.default_queue, False
    for other in device._snapshot(device._queues):
        if not other.closed and other.reached < other.submitted:
            busy = True
            if other is not queue:
                queue.wait_stream(other.stream)
    array.buffer._open()
    return {
        "shape": array.shape,
        "typestr": array.dtype.str,
        "data": (array.buffer.address if array.size else 0, array.readonly),
        "strides": None,
        "stream": queue.stream if busy else None,  # None: there is nothing to wait for
        "version": 3,
    }


def contiguous(shape: tuple[int, ...], strides: tuple[int, ...] | None, step: int = 1) -> bool:
    """Is a tensor row-major without gaps? `step` is the stride of neighbours; None: it is."""
    if strides is None or 0 in shape:
        return True
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and stride != step:
            return False
        step *= n
    return True


def checked(stream: Any) -> int:
    """A stream as the protocols name it; 0 could be either default stream, and so is refused."""
    if not hasattr(stream, "__index__"):
        raise TypeError(f"stream: a whole number is wanted, got {stream!r}")
    handle = int(stream.__index__())
    if not 0 < handle < MOST:
        raise ValueError(f"stream: 1, 2 or a handle is wanted, got {handle}")
    return handle


def stream_of(queue: Queue) -> int:
    """`Queue.stream`."""
    queue._check_open()
    return int(_shares(queue.device).share_stream(queue._handle))


def wait_stream(queue: Queue, stream: Any) -> None:
    """`Queue.wait_stream`."""
    queue._check_open()
    shares, handle = _shares(queue.device), checked(stream)
    check(shares.wait_stream(queue._handle, handle), "wait_stream", queue.device.uri)


def order_stream(queue: Queue, stream: Any) -> None:
    """`Queue.order_stream`."""
    queue._check_open()
    shares, handle = _shares(queue.device), checked(stream)
    check(shares.order_stream(queue._handle, handle), "order_stream", queue.device.uri)


def _shares(device: Device) -> SharesStreams:
    shares = device._abilities.shares_streams
    if shares is None:
        raise ValueError(f"{device.uri}: its queues are no streams that others could use")
    return shares
