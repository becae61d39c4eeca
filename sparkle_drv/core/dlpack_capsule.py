"""DLPack capsules for memory that numpy cannot export or take: that of other devices.

The structures are those of dlpack.h 0.8 (DLManagedTensor): what every consumer takes, also one that
knows version 1. ctypes rather than native code: a capsule is made once an exchange.
"""

from __future__ import annotations

import ctypes
from contextlib import ExitStack
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any

from sparkle_drv.core.host_pointer import Foreign

if TYPE_CHECKING:
    from sparkle_drv.core.device import Device

_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # enum DLDataTypeCode, by numpy's letters
_CODES = {**{code: kind for kind, code in _KINDS.items()}, 4: "bf"}  # 4: bfloat
_NAME, _USED = b"dltensor", b"used_dltensor"


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


_Deleter = ctypes.CFUNCTYPE(None, c_void_p)


# Functions of our own, so that nobody else's argtypes are touched. Capsules by their address: one
# that is being freed cannot be a Python object any more.
def _api(name: str, *types: Any) -> Any:
    return ctypes.PYFUNCTYPE(*types)((name, ctypes.pythonapi))


_new = _api("PyCapsule_New", ctypes.py_object, c_void_p, c_char_p, c_void_p)
_is_unused = _api("PyCapsule_IsValid", c_int, c_void_p, c_char_p)
_pointer = _api("PyCapsule_GetPointer", c_void_p, c_void_p, c_char_p)
_rename = _api("PyCapsule_SetName", c_int, c_void_p, c_char_p)

_exported: dict[int, tuple[Any, Any, ExitStack]] = {}  # by address: what a consumer still holds


def _delete(address: int) -> None:
    """Called by whoever holds the tensor, once, from any thread."""
    if address in _exported:
        _exported.pop(address)[-1].close()


def _drop(capsule: int) -> None:
    """The capsule goes; nobody took what is in it."""
    if _is_unused(capsule, _NAME):
        _delete(_pointer(capsule, _NAME))


_deleter, _destructor = _Deleter(_delete), _Deleter(_drop)


def capsule(
    address: int, device: tuple[int, int], dtype: Any, shape: tuple[int, ...], kept: ExitStack
) -> Any:  # fmt: skip
    """Memory at `address` as a capsule, row-major; `kept` ends once its consumer lets go.

    Raises BufferError for a numpy dtype that DLPack does not have.
    """
    if dtype.kind not in _KINDS or not dtype.isnative:
        raise BufferError(f"DLPack has no elements like {dtype}")
    sizes = (c_int64 * len(shape))(*shape)
    tensor = _Tensor(
        address or None, *device, len(shape), _KINDS[dtype.kind], 8 * dtype.itemsize, 1,
        ctypes.cast(sizes, POINTER(c_int64)),
    )  # fmt: skip
    managed = _Managed(tensor, None, ctypes.cast(_deleter, c_void_p))
    where = ctypes.addressof(managed)
    _exported[where] = managed, sizes, kept.pop_all()
    return _new(where, _NAME, ctypes.cast(_destructor, c_void_p))


class _Owner:
    """Gives a tensor back to its producer when it goes."""

    __slots__ = ("_managed",)

    def __init__(self, managed: Any) -> None:
        self._managed = managed

    def __del__(self) -> None:
        if self._managed.deleter:
            _Deleter(self._managed.deleter)(ctypes.addressof(self._managed))


def take(device: Device, given: Any, stream: int, place: tuple[int, int]) -> Foreign:
    """The memory of an exporter, its producer's until the owner is forgotten.

    TypeError for an export that fails or is of another place; ValueError for a strided one.
    """
    try:
        capsule = given.__dlpack__(stream=stream)
        managed = _Managed.from_address(_pointer(id(capsule), _NAME))
    except Exception as error:  # an exporter's code may raise anything
        raise TypeError(f"its DLPack export says: {error}") from None
    _rename(id(capsule), _USED)
    owner, tensor = _Owner(managed), managed.tensor
    found = tensor.device_type, tensor.device_id
    if found != place:
        raise TypeError(f"its DLPack capsule is of device {found}, it said {place}")
    itemsize, rest = divmod(tensor.bits * tensor.lanes, 8)
    kind = _CODES.get(tensor.code, "") if tensor.lanes == 1 and not rest else ""
    shape, strides = tensor.shape[: tensor.ndim], tensor.strides
    return Foreign(
        device, (tensor.data or 0) + tensor.byte_offset, shape,
        strides[: tensor.ndim] if strides else None, 1, kind, itemsize, False, owner,
    )  # fmt: skip
