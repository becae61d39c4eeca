"""Pointer arguments of a launch. `Pointer` is the base class of buffers and arrays. `Borrowed` is
the memory of another object for one launch, such as a numpy array on a unified device.

`Device.wrap` makes a buffer with its own lifetime. Making a `Borrowed` takes a tenth of the time of
`Device.wrap`. A `Borrowed` lives as long as something refers to it; a launch refers to it until the
launch has ended.
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
    """Memory of a device, and bits that say which element types it has (core/abi/elements.py)."""

    __slots__ = ()

    @property
    def readonly(self) -> bool:
        """True for wrapped memory that must not be written."""
        return bool(self._elements & READONLY)

    def _ready(self) -> None:
        """Makes sure that the memory exists. An Array computes its expression here."""


class Borrowed(Pointer):
    """Memory of `nbytes` bytes that belongs to `owner`, with elements of `dtype`."""

    __slots__ = ("dtype", "owner")
    closed = False

    def __init__(
        self, device: Device, address: int, nbytes: int, elements: int, readonly: bool,
        dtype: Any, owner: object,
    ) -> None:  # fmt: skip
        # Each pointer has a storage of its own. A common storage would be kept by the device and
        # refer to the device, a reference cycle.
        storage = StorageBase()
        storage.device = device
        self._begin(storage, address, nbytes, elements | BORROWED | READONLY * readonly)
        self.dtype, self.owner = dtype, owner

    @property
    def device(self) -> Device:
        device: Device = self._storage.device
        return device


class ForeignMemory(Borrowed):
    """Memory of another library on the device. `kind` is numpy's letter of the elements, or "bf".

    The memory must be row-major without gaps; otherwise ValueError is raised. `strides` None means
    that it is. `step` is the distance of neighbouring elements: 1 if `strides` count elements, the
    size of an element if they count bytes.
    """

    __slots__ = ("shape",)

    def __init__(
        self, device: Device, address: int, shape: Sequence[int], strides: Sequence[int] | None,
        step: int, kind: str, itemsize: int, readonly: bool, owner: object,
    ) -> None:  # fmt: skip
        if strides is not None and 0 not in shape:
            for n, stride in zip(reversed(shape), reversed(strides), strict=True):
                if n != 1 and stride != step:
                    raise ValueError("expected a C-contiguous array: no copy is made")
                step *= n
        nbytes, elements = math.prod(shape) * itemsize, of_kind(kind, itemsize)
        super().__init__(device, address, nbytes, elements, readonly, f"{kind}{itemsize}", owner)
        self.shape = tuple(shape)


class HostSpan(Borrowed):
    """The memory of an array with any strides, for kernels that take the strides as arguments.

    The memory has `nbytes` bytes and begins `below` bytes before the array's first element.
    `elements` says which pointer types the memory fits, as bits of core/abi/elements.py. By default
    the memory fits every pointer type.
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
    """The memory of a C-contiguous numpy array. Raises ValueError for any other array."""

    __slots__ = ()

    def __init__(self, device: Device, array: np.ndarray[Any, Any]) -> None:
        if not array.flags.c_contiguous:
            raise ValueError("expected a C-contiguous array: a launch makes no copies")
        if not array.flags.aligned:
            raise ValueError(
                f"expected an array aligned for {array.dtype}: a launch makes no copies"
            )
        super().__init__(device, array, 0, array.nbytes, of_dtype(array.dtype))
