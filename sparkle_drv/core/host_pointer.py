"""HostPointer: a numpy array in a pointer's place for one launch, where memory is unified.

What `Device.wrap` makes is a buffer with a life of its own; this is a pointer that lasts as long
as somebody keeps it, and costs a tenth. A launch keeps it until it has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkle_drv._hot import PointerBase, StorageBase
from sparkle_drv.core.abi.elements import ANY, BORROWED, READONLY, of_dtype

if TYPE_CHECKING:
    import numpy as np

    from sparkle_drv.core.device import Device


class HostPointer(PointerBase):
    """What Kernel.record reads of a Buffer, for a C-contiguous array; ValueError for any other."""

    __slots__ = ("_readonly", "array")

    def __init__(self, device: Device, array: np.ndarray[Any, Any]) -> None:
        if not array.flags.c_contiguous:
            raise ValueError("a C-contiguous array is wanted; a launch makes no copies")
        if array.dtype.alignment > 1 and not array.flags.aligned:
            raise ValueError(
                f"an array aligned for {array.dtype} is wanted; a launch makes no copies"
            )
        self.array = array
        self.nbytes = array.nbytes
        self._address = array.__array_interface__["data"][0]
        self._readonly = not array.flags.writeable
        self._elements = of_dtype(array.dtype) | BORROWED | READONLY * self._readonly
        self._storage = HostMemory(device)  # not one for all: the device would then hold itself

    @property
    def closed(self) -> bool:
        return False

    @property
    def device(self) -> Device:
        device: Device = self._storage.device
        return device

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    @property
    def readonly(self) -> bool:
        return self._readonly


class HostSpan(HostPointer):
    """The memory of an array of any strides: `nbytes` from `below` bytes before its first element.

    Bytes to whoever asks; for kernels that are told the strides.
    """

    __slots__ = ()

    def __init__(
        self, device: Device, array: np.ndarray[Any, Any], below: int, nbytes: int
    ) -> None:
        self.array = array
        self.nbytes = nbytes
        self._address = array.__array_interface__["data"][0] - below
        self._readonly = not array.flags.writeable
        self._elements = ANY | BORROWED | READONLY * self._readonly
        self._storage = HostMemory(device)


class HostMemory(StorageBase):
    """Stands where a Buffer has its Storage."""

    __slots__ = ()

    def __init__(self, device: Device) -> None:
        self.device = device
