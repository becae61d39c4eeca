"""DLPack capsules for memory that numpy cannot export or take: that of other devices.

The structures are those of dlpack.h 0.8 (DLManagedTensor): what every consumer takes, also one that
knows version 1. ctypes rather than native code: a capsule is made once an exchange.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from typing import Any, NamedTuple

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
_python = ctypes.PyDLL(None)  # functions of our own, so that nobody else's argtypes are touched


def _api(name: str, result: Any, *arguments: Any) -> Any:
    function = _python[name]
    function.restype, function.argtypes = result, arguments
    return function


# Capsules by their address: one that is being freed cannot be a Python object any more.
_new = _api("PyCapsule_New", ctypes.py_object, c_void_p, c_char_p, c_void_p)
_is_unused = _api("PyCapsule_IsValid", c_int, c_void_p, c_char_p)
_pointer = _api("PyCapsule_GetPointer", c_void_p, c_void_p, c_char_p)
_rename = _api("PyCapsule_SetName", c_int, c_void_p, c_char_p)

_exported: dict[int, tuple[Any, Callable[[], None]]] = {}  # by address: what a consumer still holds


def _delete(address: int) -> None:
    """Called by whoever holds the tensor, once, from any thread."""
    kept = _exported.pop(address, None)
    if kept is not None:
        kept[1]()


def _drop(capsule: int) -> None:
    """The capsule goes; nobody took what is in it."""
    if _is_unused(capsule, _NAME):
        _delete(_pointer(capsule, _NAME))


_deleter, _destructor = _Deleter(_delete), _Deleter(_drop)


def capsule(
    address: int, device: tuple[int, int], dtype: Any, shape: tuple[int, ...],
    release: Callable[[], None],
) -> Any:  # fmt: skip
    """Memory at `address` as a capsule, row-major; `release` is called once its consumer lets go.

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
    _exported[where] = ((managed, sizes), release)
    return _new(where, _NAME, ctypes.cast(_destructor, c_void_p))


class Taken(NamedTuple):
    """What came in a capsule; the memory is its producer's until `owner` is forgotten."""

    address: int
    device: tuple[int, int]
    kind: str
    """A letter as numpy's dtype.kind; "bf": bfloat16; "": something else."""
    itemsize: int
    """Bytes of an element."""
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    """In elements; None: row-major without gaps."""
    owner: object


class _Owner:
    """Gives a tensor back to its producer when it goes."""

    __slots__ = ("_managed",)

    def __init__(self, managed: Any) -> None:
        self._managed = managed

    def __del__(self) -> None:
        if self._managed.deleter:
            _Deleter(self._managed.deleter)(ctypes.addressof(self._managed))


def take(given: Any) -> Taken:
    """Consumes a capsule; ValueError when it is none, or was consumed before."""
    where = _pointer(id(given), _NAME)
    _rename(id(given), _USED)
    managed = _Managed.from_address(where)
    tensor = managed.tensor
    nbytes, rest = divmod(tensor.bits * tensor.lanes, 8)
    return Taken(
        (tensor.data or 0) + tensor.byte_offset,
        (tensor.device_type, tensor.device_id),
        _CODES.get(tensor.code, "") if tensor.lanes == 1 and not rest else "",
        nbytes,
        tuple(tensor.shape[: tensor.ndim]),
        tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None,
        _Owner(managed),
    )
