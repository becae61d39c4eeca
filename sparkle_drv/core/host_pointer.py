"""What stands in a pointer's place in a launch: `Pointer`, with buffers and arrays below it; and
memory of others for one launch, such as a numpy array's where memory is unified.

What `Device.wrap` makes is a buffer with a life of its own; `Borrowed` is a pointer that lasts as
long as somebody keeps it, and costs a tenth. A launch keeps it until it has ended.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sparkle_drv._hot import PointerBase, StorageBase
from sparkle_drv.core.abi.elements import ANY, BORROWED, READONLY, of_dtype, of_kind

if TYPE_CHECKING:
    import numpy as np

    from sparkle_drv.core.device import Device


class Pointer(PointerBase):
    """Memory of a device, with the bits of core/abi/elements.py."""

    __slots__ = ()

    @property
    def readonly(self) -> bool:
        """True over wrapped memory that must not be written."""
        return bool(self._elements & READONLY)

    def _ready(self) -> None:
        """Have memory behind it: an Array computes what it stands for."""


class Borrowed(Pointer):
    """Memory that is `owner`'s, of elements of `dtype`."""

    __slots__ = ("dtype", "owner")
    closed = False

    def __init__(
        self, device: Device, address: int, nbytes: int, elements: int, readonly: bool,
        dtype: Any, owner: object,
    ) -> None:  # fmt: skip
        storage = StorageBase()  # not one for all: the device would then hold itself
        storage.device = device
        self._begin(storage, address, nbytes, elements | BORROWED | READONLY * readonly)
        self.dtype, self.owner = dtype, owner

    @property
    def device(self) -> Device:
        device: Device = self._storage.device
        return device


class Foreign(Borrowed):
    """Another library's memory on the device: elements of `kind`, numpy's letter or "bf".

    ValueError unless it is row-major without gaps. `strides` are in units of which neighbours are
    `step` apart; None: it is.
    """

    __slots__ = ("shape",)

    def __init__(
        self, device: Device, address: int, shape: Sequence[int], strides: Sequence[int] | None,
        step: int, kind: str, itemsize: int, readonly: bool, owner: object,
    ) -> None:  # fmt: skip
        if strides is not None and 0 not in shape:
            for n, stride in zip(reversed(shape), reversed(strides), strict=True):
                if n != 1 and stride != step:
                    raise ValueError("a C-contiguous array is wanted; nothing here makes copies")
                step *= n
        nbytes, elements = math.prod(shape) * itemsize, of_kind(kind, itemsize)
        super().__init__(device, address, nbytes, elements, readonly, f"{kind}{itemsize}", owner)
        self.shape = tuple(shape)


class HostSpan(Borrowed):
    """The memory of an array of any strides: `nbytes` from `below` bytes before its first element.

    Bytes to whoever asks, unless `elements` says more; for kernels that are told the strides.
    """

    __slots__ = ()

    def __init__(
        self, device: Device, array: np.ndarray[Any, Any], below: int, nbytes: int,
        elements: int = ANY,
    ) -> None:  # fmt: skip
        address = array.__array_interface__["data"][0] - below
        readonly = not array.flags.writeable
        super().__init__(device, address, nbytes, elements, readonly, array.dtype, array)


class HostPointer(HostSpan):
    """A C-contiguous numpy array; ValueError for any other."""

    __slots__ = ()

    def __init__(self, device: Device, array: np.ndarray[Any, Any]) -> None:
        if not array.flags.c_contiguous:
            raise ValueError("a C-contiguous array is wanted; a launch makes no copies")
        if not array.flags.aligned:
            raise ValueError(
                f"an array aligned for {array.dtype} is wanted; a launch makes no copies"
            )
        super().__init__(device, array, 0, array.nbytes, of_dtype(array.dtype))
