"""DLPack capsules for device memory, which numpy can neither export nor import.

The structures are those of dlpack.h. Consumers that know version 1 get DLManagedTensorVersioned;
others get the older DLManagedTensor, which cannot say that memory is read-only. ctypes is fast
enough, because each exchange makes one capsule.
"""

from __future__ import annotations

import ctypes
import math
import sys
from contextlib import ExitStack
from ctypes import (
    POINTER,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sparkle_drv.core.host_pointer import ForeignMemory
from sparkle_drv.core.interop import HOST_KINDS

if TYPE_CHECKING:
    from sparkle_drv.core.device import Device

_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # numpy's letter -> DLDataTypeCode
_BFLOAT = 4
_CODES = {**{code: kind for kind, code in _KINDS.items()}, _BFLOAT: "bf"}
_NAMES = b"dltensor_versioned", b"dltensor"
VERSION = 1, 0
"""The version of exported capsules. Imports read every minor version of version 1."""
_USED = {name: b"used_" + name for name in _NAMES}  # kept: capsules point to these texts
_ORDER = "<" if sys.byteorder == "little" else ">"
_READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p))
    flags = 0


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    )


_Deleter = ctypes.CFUNCTYPE(None, c_void_p)


# Returns a new function object for the C function `name`. The attribute of ctypes.pythonapi with
# this name is shared: other libraries may set its argtypes. Capsules are passed by address, because
# a capsule that is being freed cannot be passed as a Python object.
def _api(name: str, *types: Any) -> Any:
    return ctypes.PYFUNCTYPE(*types)((name, ctypes.pythonapi))


_new = _api("PyCapsule_New", ctypes.py_object, c_void_p, c_char_p, c_void_p)
_is_unused = _api("PyCapsule_IsValid", c_int, c_void_p, c_char_p)
_pointer = _api("PyCapsule_GetPointer", c_void_p, c_void_p, c_char_p)
_rename = _api("PyCapsule_SetName", c_int, c_void_p, c_char_p)

# Exported tensors that no consumer has deleted yet, by the address of their C struct.
_exported: dict[int, tuple[Any, Any, ExitStack]] = {}


def _delete(address: int) -> None:
    """Deletes the exported tensor whose struct is at `address`. The consumer calls this once, from
    any thread.
    """
    if address in _exported:
        _exported.pop(address)[-1].close()


def _drop(capsule: int) -> None:
    """Destroys an exported capsule: deletes the tensor if no consumer took it over."""
    for name in _NAMES:
        if _is_unused(capsule, name):
            _delete(_pointer(capsule, name))


_deleter, _destructor = _Deleter(_delete), _Deleter(_drop)


def capsule(
    address: int, device: tuple[int, int], dtype: Any, shape: tuple[int, ...], kept: ExitStack,
    versioned: bool, readonly: bool,
) -> Any:  # fmt: skip
    """Returns a capsule of row-major memory at `address`.

    `kept` is closed when the consumer releases the memory. `device` is DLPack's (device type,
    device id). Raises BufferError for a numpy dtype that DLPack does not have, and for read-only
    memory unless `versioned`.
    """
    code = _BFLOAT if dtype.name == "bfloat16" else _KINDS.get(dtype.kind)
    if code is None or not dtype.isnative:
        raise BufferError(f"DLPack has no elements like {dtype}")
    if readonly and not versioned:
        raise BufferError("max_version: expected (1, 0) or later, because the array is read-only")
    n = len(shape)
    strides = (math.prod(shape[i + 1 :]) for i in range(n))
    sizes = (c_int64 * (2 * n))(*shape, *strides)
    tensor = _Tensor(
        address or None, *device, n, code, 8 * dtype.itemsize, 1,
        ctypes.cast(sizes, POINTER(c_int64)),
    )  # fmt: skip
    deleter = ctypes.cast(_deleter, c_void_p)
    managed: Any = _Managed(tensor, None, deleter)
    if versioned:
        # DLPack 1.2 requires strides.
        tensor.strides = ctypes.cast(ctypes.addressof(sizes) + 8 * n, POINTER(c_int64))
        managed = _Versioned(*VERSION, None, deleter, _READ_ONLY * readonly, tensor)
    where = ctypes.addressof(managed)
    _exported[where] = managed, sizes, kept.pop_all()
    return _new(where, _NAMES[not versioned], ctypes.cast(_destructor, c_void_p))


class _Owner:
    """The owner of a tensor; when the owner is freed, the tensor goes back to the producer."""

    __slots__ = ("_managed",)

    def __init__(self, managed: Any) -> None:
        self._managed = managed

    def __del__(self) -> None:
        if self._managed.deleter:
            _Deleter(self._managed.deleter)(ctypes.addressof(self._managed))


class _Export:
    """The contents of an exporter's capsule; the memory is valid as long as `owner` exists.

    Raises TypeError if the export fails, or if the capsule's version is later than VERSION.
    """

    def __init__(self, exporter: Any, **options: Any) -> None:
        try:
            managed = self._managed(exporter, options)
        except Exception as error:  # the exporter's code may raise any exception
            raise TypeError(f"the array's DLPack export failed: {error}") from None
        self.owner = _Owner(managed)
        version = getattr(managed, "major", VERSION[0])
        if version > VERSION[0]:  # then no field but the version may be read
            raise TypeError(f"expected a DLPack capsule of version 1 at most, got {version}")
        tensor = managed.tensor
        self.place = tensor.device_type, tensor.device_id
        self.itemsize, rest = divmod(tensor.bits * tensor.lanes, 8)
        self.kind = _CODES.get(tensor.code, "") if tensor.lanes == 1 and not rest else ""
        self.address = (tensor.data or 0) + tensor.byte_offset
        self.shape = tuple(tensor.shape[: tensor.ndim])
        self.strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
        self.versioned = isinstance(managed, _Versioned)
        self.readonly = bool(managed.flags & _READ_ONLY)

    def _managed(self, exporter: Any, options: dict[str, Any]) -> Any:
        """Returns the managed tensor that `exporter` exports. The caller then owns the tensor, and
        must call its deleter in the end.
        """
        try:
            capsule = exporter.__dlpack__(**options, max_version=VERSION)
        except TypeError:  # the exporter does not know `max_version`
            capsule = exporter.__dlpack__(**options)
        versioned = _is_unused(id(capsule), _NAMES[0])
        name = _NAMES[not versioned]
        kind: Any = _Versioned if versioned else _Managed
        managed = kind.from_address(_pointer(id(capsule), name))
        _rename(id(capsule), _USED[name])
        return managed


def take(device: Device, exporter: Any, stream: int, place: tuple[int, int]) -> ForeignMemory:
    """Returns the memory that `exporter` exports by DLPack. It is released when the result's
    `owner` is freed.

    Raises TypeError if the export fails, if the capsule is newer than version 1, or if its memory
    is on another device than `place`. Raises ValueError for a strided array.
    """
    x = _Export(exporter, stream=stream)
    if x.place != place:
        raise TypeError(f"expected a DLPack capsule on device {place}, got one on device {x.place}")
    return ForeignMemory(
        device, x.address, x.shape, x.strides, 1, x.kind, x.itemsize, x.readonly, x.owner
    )


def host_interface(exporter: Any) -> tuple[str, Any]:
    """Returns (kind, an object with `__array_interface__`) for a DLPack exporter of host memory.

    kind is numpy's letter for the elements, "bf" for bfloat16, "" for unknown ones. The function is
    for arrays whose elements numpy cannot import. The interface shows the elements as unsigned
    integers of the same size. Raises TypeError if the export fails, the capsule is newer than
    version 1, or the memory is a device's.
    """
    x = _Export(exporter)
    if x.place[0] not in HOST_KINDS:
        raise TypeError(f"expected a DLPack capsule of host memory, got one on device {x.place}")
    strides = None if x.strides is None else tuple(x.itemsize * step for step in x.strides)
    # A capsule of an old version has no flags, so it cannot say whether writing is allowed. numpy
    # treats such memory as read-only, and so does this function.
    interface = {
        "version": 3, "typestr": f"{_ORDER}u{x.itemsize}", "shape": x.shape, "strides": strides,
        "data": (x.address, x.readonly or not x.versioned),
    }  # fmt: skip
    return x.kind, SimpleNamespace(__array_interface__=interface, owner=x.owner)
