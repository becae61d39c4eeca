"""DLPack without numpy: an exporter and a reader in ctypes, after the header dlpack.h (v0.8, and
v1.0 for versioned capsules).

Not a test; used by those of core, ops and sched, so that both directions are judged by somebody
other than numpy.
"""

from __future__ import annotations

import ctypes
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

INT, UINT, FLOAT, BFLOAT, BOOL = 0, 1, 2, 4, 6
CPU, CUDA = 1, 2


class Device(ctypes.Structure):
    _fields_ = (("type", c_int32), ("id", c_int32))


class Type(ctypes.Structure):
    _fields_ = (("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16))


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device", Device),
        ("ndim", c_int32),
        ("dtype", Type),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


class Managed(ctypes.Structure):
    pass


DELETER = ctypes.CFUNCTYPE(None, POINTER(Managed))
Managed._fields_ = (("tensor", Tensor), ("context", c_void_p), ("deleter", DELETER))


class Versioned(ctypes.Structure):
    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", DELETER),  # of this structure; it is told by its address alone
        ("flags", c_uint64),
        ("tensor", Tensor),
    )


_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, (c_void_p, c_char_p, c_void_p)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c_void_p, (ctypes.py_object, c_char_p)
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.argtypes = (ctypes.py_object, c_char_p)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = c_int, (ctypes.py_object, c_char_p)
_NAME, _USED = b"dltensor", b"used_dltensor"
_NEW_NAME, _NEW_USED = b"dltensor_versioned", b"used_dltensor_versioned"

_out = {}
"""What capsules point to, by address, until it is released: whoever made it may be gone by then."""
_last = []
"""The last that was released: a callback is not to be freed while it runs."""


class Exporter:
    """Floats in memory of ctypes' own, offered by __dlpack__; counts how often it was released.

    `version`: of its capsules, for a consumer that takes it; 0: the old kind. `first`: the element
    that the memory is said to begin with.
    """

    def __init__(
        self, values, shape=None, strides=None, device=CPU, code=FLOAT, bits=32, *,
        version=0, readonly=False, first=0, memory=None,
    ):  # fmt: skip
        self.memory = (ctypes.c_float * len(values))(*values) if memory is None else memory
        self.version, self.readonly, self.first = version, readonly, first
        self.shape = tuple(shape or (len(values),))
        self.strides = strides
        self.device = device
        self.code, self.bits = code, bits
        self.exported = self.released = 0

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, *, max_version=None, **_):
        n = len(self.shape)
        shape = (c_int64 * n)(*self.shape)
        strides = (c_int64 * n)(*self.strides) if self.strides else None
        deleter = DELETER(self._release)
        new = self.version and max_version is not None
        managed = Versioned(self.version, 0, flags=self.readonly) if new else Managed()
        tensor = managed.tensor
        tensor.data = ctypes.addressof(self.memory)
        tensor.byte_offset = self.first * self.bits // 8
        tensor.device = Device(self.device, 0)
        tensor.ndim, tensor.dtype = n, Type(self.code, self.bits, 1)
        tensor.shape = ctypes.cast(shape, POINTER(c_int64))
        tensor.strides = ctypes.cast(strides, POINTER(c_int64)) if strides else None
        managed.deleter = deleter
        where = ctypes.addressof(managed)
        _out[where] = managed, shape, strides, deleter
        self.managed = managed  # for tests that change what it says
        self.exported += 1
        return _new(where, _NEW_NAME if new else _NAME, None)

    def _release(self, managed):
        self.released += 1
        where = ctypes.addressof(managed.contents)
        _last[:] = [_out.pop(where, None)]


class Reader:
    """What a capsule says, read with no copy; `close` gives it back to its producer."""

    def __init__(self, capsule):
        new = _is_valid(capsule, _NEW_NAME)
        kind, name, used = (Versioned, _NEW_NAME, _NEW_USED) if new else (Managed, _NAME, _USED)
        self.managed = kind.from_address(_pointer(capsule, name))
        _rename(capsule, used)
        self.readonly = bool(self.managed.flags & 1) if new else None
        tensor = self.managed.tensor
        self.address = tensor.data + tensor.byte_offset
        self.shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
        self.strides = (
            tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else None
        )
        self.type = (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes)
        self.device = (tensor.device.type, tensor.device.id)

    def floats(self, n):
        return (ctypes.c_float * n).from_address(self.address)

    def close(self):
        self.managed.deleter(ctypes.cast(ctypes.pointer(self.managed), POINTER(Managed)))
