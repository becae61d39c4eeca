"""Shares memory with other libraries of the process, without copies.

Host arrays work on every device. Devices with the ability SharesStreams (backends/abilities.py)
also export and import by DLPack and the CUDA array interface.

The consumer of memory names a stream. The producer makes that stream wait for the work that it has
submitted so far; the host does not wait. The caller orders later work by `Queue.wait_stream` and
`order_stream`.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any

from sparkle_drv.core.host_pointer import ForeignMemory
from sparkle_drv.core.whole_number import within
from sparkle_drv.errors import check
from sparkle_drv.types import Memory

if TYPE_CHECKING:
    import numpy as np

    from sparkle_drv.backends.abilities import SharesStreams
    from sparkle_drv.core.array import Array
    from sparkle_drv.core.buffer import Buffer
    from sparkle_drv.core.device import Device
    from sparkle_drv.core.queue import Queue

HOST = 1, 0
"""DLPack's kDLCPU."""
HOST_KINDS = (1, 3, 11, 13)
"""DLDeviceType of memory that the host can read: plain, pinned (CUDA, ROCm), managed (CUDA)."""
NO_STREAM = -1
"""DLPack: the consumer wants no ordering."""
MOST = 1 << 64
"""Every address and handle is less than this."""
OLD_DEFAULT = 1
"""The legacy default stream, which DLPack means by None."""


def wrap(device: Device, array: Any) -> Buffer:
    """Returns the memory of `array` as a buffer of `device`, without a copy.

    The buffer keeps the array alive. `array` is a host array: numpy's, or any CPU DLPack exporter.
    On CUDA devices it may also be an array in the device's memory (torch, CuPy, JAX, DLPack or
    `__cuda_array_interface__`). All open queues of `device` then wait for the work that the array's
    producer has in flight.

    Raises TypeError for any other object, ValueError for an array that is not C-contiguous.

    >>> x = np.arange(4, dtype=np.float32)
    >>> with sp.wrap(dev, x) as buffer:
    ...     buffer.nbytes, buffer.address == x.ctypes.data
    (16, True)
    """
    from sparkle_drv.core.device import Device

    if not isinstance(device, Device):
        raise TypeError(f"device: expected a Device, got {type(device).__name__}")
    return device.wrap(array)


def place_of(device: Device, wanted: Any = None) -> tuple[int, int]:
    """Returns where an export of the device's memory is, as DLPack's (device type, device id).

    `wanted` is such a pair or None. Raises BufferError if `wanted` is neither the host nor the
    device, or if the device cannot export its memory.
    """
    place = None if wanted is None else tuple(map(int, wanted))
    if place == HOST:
        return HOST
    shares = device._abilities.shares_streams
    if shares is None:
        raise BufferError(f"{device.uri} memory is not host memory; use numpy() for a copy")
    if place not in (None, shares.dlpack):
        raise BufferError(
            f"dl_device: expected {shares.dlpack} ({device.uri}) or {HOST} (the host), got {wanted}"
        )
    return shares.dlpack


def borrowed(queue: Queue, array: Any) -> ForeignMemory | None:
    """Returns the memory of a foreign array on the queue's device.

    The queue's next work waits for the array's producer. Returns None if `array` is not an array,
    or is on another device or the host. Raises TypeError or ValueError if the array is broken or
    strided, or names a stream that does not exist.
    """
    shares = queue.device._abilities.shares_streams
    if shares is None:
        return None
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        if tuple(map(int, array.__dlpack_device__())) != shares.dlpack:
            return None
        from sparkle_drv.core import dlpack_capsule  # imported late: ctypes takes time

        return dlpack_capsule.take(queue.device, array, queue.stream, shares.dlpack)
    return _by_interface(queue, array) if hasattr(array, "__cuda_array_interface__") else None


def _by_interface(queue: Queue, array: Any) -> ForeignMemory:
    """Does the work of `borrowed` by the CUDA array interface, versions 0 to 3.

    Only version 3 names a stream for which the queue must wait.
    """
    import numpy as np

    interface = array.__cuda_array_interface__
    try:
        shape, (address, readonly) = tuple(map(int, interface["shape"])), interface["data"]
        dtype = np.dtype(interface["typestr"])
        nbytes, address = math.prod(shape) * dtype.itemsize, int(address or 0)
        strides = None if interface.get("strides") is None else tuple(interface["strides"])
        if interface.get("mask") is not None:
            raise ValueError("expected an array without a mask, got a masked one")
        if min(shape, default=0) < 0:
            raise ValueError(f"expected a shape without negative sizes, got {shape}")
        if address < 0 or address + nbytes > MOST:
            raise ValueError(
                f"expected memory within addresses 0 to {MOST:#x}, "
                f"got {nbytes} bytes at {address:#x}"
            )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TypeError(f"the array's __cuda_array_interface__ cannot be used: {error!r}") from None
    # The CUDA array interface does not say which device the memory is on, so ask the driver.
    if nbytes and not shares_of(queue.device).owns(address):
        raise ValueError(f"{address:#x} is not memory of {queue.device.uri}")
    if interface.get("stream") is not None:
        queue.wait_stream(interface["stream"])
    kind, step = dtype.kind if dtype.isnative else "", dtype.itemsize
    return ForeignMemory(
        queue.device, address, shape, strides, step, kind, step, bool(readonly), array
    )


def adopt(device: Device, array: Any) -> tuple[Buffer, ForeignMemory] | None:
    """Returns a buffer over the memory of `array` for `Device.wrap`, and the memory as a
    `ForeignMemory`.

    Returns None if the device does not share its streams, or `array` is not an array in the memory
    of this device. Raises the errors of `borrowed`.
    """
    shares = device._abilities.shares_streams
    if shares is None or (memory := borrowed(device.default_queue, array)) is None:
        return None
    for other in device._open_queues():
        if other is not device.default_queue:
            other.wait_stream(device.default_queue.stream)
    there = shares.adopt(memory._address, memory.nbytes, memory.owner)
    return device._store(there, memory.nbytes, Memory.DEVICE, memory.readonly), memory


def export(
    array: Array, stream: Any = None, dl_device: Any = None, copy: Any = None,
    max_version: Any = None,
) -> Any:  # fmt: skip
    """Returns `array` as a DLPack capsule, and makes `stream` wait for the device's work.

    The memory lives until the consumer releases it, even if the array is closed first. The capsule
    has version 1 if `max_version` allows that. If `dl_device` is (1, 0), the host, the capsule has
    a copy. Raises BufferError if `dl_device` is neither the host nor the array's device, or if
    `copy` asks for a copy on the array's device.
    """
    from sparkle_drv.core import dlpack_capsule

    device, place = array.device, place_of(array.device, dl_device)
    versioned = max_version is not None and tuple(max_version) >= dlpack_capsule.VERSION
    if place == HOST:
        if copy is False:
            raise BufferError(f"copy: expected None or True for memory of {device.uri}, got False")
        return export_host(array.numpy(), max_version=max_version)
    if copy:
        raise BufferError(f"copy: expected None or False for memory of {device.uri}, got {copy!r}")
    if stream != NO_STREAM:
        handle = checked(OLD_DEFAULT if stream is None else stream)
        for queue in device._working():
            queue.order_stream(handle)
    with contextlib.ExitStack() as pinned:
        pinned.callback(device._retired.drain)
        pinned.callback(id, array.buffer._open().pin())  # the call drops the pin
        address, readonly = array.buffer.address, array.readonly
        return dlpack_capsule.capsule(
            address, place, array.dtype, array.shape, pinned, versioned, readonly
        )


def export_host(
    host: np.ndarray[Any, Any], stream: Any = None, dl_device: Any = None, copy: Any = None,
    max_version: Any = None,
) -> Any:  # fmt: skip
    """Returns a row-major numpy array as a DLPack capsule, also one of bfloat16.

    Raises BufferError for another `dl_device` than the host, and for a read-only array unless
    `max_version` allows version 1.
    """
    from sparkle_drv.core import dlpack_capsule

    if stream is not None or dl_device not in (None, HOST):
        raise BufferError(
            f"expected stream None and dl_device None or {HOST} (the host), "
            f"got stream {stream!r} and dl_device {dl_device}"
        )
    host = host.copy() if copy else host
    versioned = max_version is not None and tuple(max_version) >= dlpack_capsule.VERSION
    with contextlib.ExitStack() as kept:
        kept.callback(id, host)  # the array lives until the consumer releases it
        return dlpack_capsule.capsule(
            host.ctypes.data, HOST, host.dtype, host.shape, kept, versioned,
            not host.flags.writeable,
        )  # fmt: skip


def interface(array: Array) -> dict[str, Any]:
    """Returns `__cuda_array_interface__`, version 3, for arrays on CUDA devices."""
    device = array.device
    shares = device._abilities.shares_streams
    if shares is None or shares.dlpack[0] != 2:  # kDLCUDA
        raise AttributeError(f"__cuda_array_interface__: expected a CUDA device, got {device.uri}")
    queue, working = device.default_queue, device._working()
    for other in working:
        if other is not queue:
            queue.wait_stream(other.stream)
    return {
        "shape": array.shape,
        "typestr": array.dtype.str,
        "data": (array.buffer.address if array.size else 0, array.readonly),
        "strides": None,
        "stream": queue.stream if working else None,  # None: there is nothing to wait for
        "version": 3,
    }


def checked(stream: Any) -> int:
    """Returns `stream` if DLPack and the CUDA array interface accept it as a stream's number.

    Raises ValueError for 0, which could mean either of the two default streams.
    """
    return within("stream (1, 2 or a handle)", stream, 1, MOST - 1)


def with_stream(queue: Queue, call: str, stream: Any) -> None:
    """Does the work of the method `call` of Queue: "wait_stream" or "order_stream"."""
    queue._check_open()
    ability = getattr(shares_of(queue.device), call)
    check(ability(queue._handle, checked(stream)), call, queue.device.uri)


def shares_of(device: Device) -> SharesStreams:
    """Returns the device's backend as a SharesStreams, the ability to share memory and streams with
    other libraries. Raises ValueError if the backend does not have it.
    """
    shares = device._abilities.shares_streams
    if shares is None:
        raise ValueError(f"{device.uri}: other libraries cannot use its queues as streams")
    return shares
