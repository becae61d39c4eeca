"""DLPack without numpy: an exporter and a reader in ctypes, after the header dlpack.h (v0.8).

Not a test; used by tests/core/test_core_dlpack.py, so that both directions are judged by somebody
other than numpy.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p

INT, UINT, FLOAT = 0, 1, 2
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

_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, (c_void_p, c_char_p, c_void_p)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c_void_p, (ctypes.py_object, c_char_p)
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.argtypes = (ctypes.py_object, c_char_p)
_NAME, _USED = b"dltensor", b"used_dltensor"

_out = {}
"""What capsules point to, by address, until it is released: whoever made it may be gone by then."""
_last = []
"""The last that was released: a callback is not to be freed while it runs."""


class Exporter:
    """Floats in memory of ctypes' own, offered by __dlpack__; counts how often it was released."""

    def __init__(self, values, shape=None, strides=None, device=CPU, code=FLOAT, bits=32):
        self.memory = (ctypes.c_float * len(values))(*values)
        self.shape = tuple(shape or (len(values),))
        self.strides = strides
        self.device = device
        self.code, self.bits = code, bits
        self.exported = self.released = 0

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, **_):
        n = len(self.shape)
        shape = (c_int64 * n)(*self.shape)
        strides = (c_int64 * n)(*self.strides) if self.strides else None
        deleter = DELETER(self._release)
        managed = Managed()
        tensor = managed.tensor
        tensor.data = ctypes.addressof(self.memory)
        tensor.device = Device(self.device, 0)
        tensor.ndim, tensor.dtype = n, Type(self.code, self.bits, 1)
        tensor.shape = ctypes.cast(shape, POINTER(c_int64))
        tensor.strides = ctypes.cast(strides, POINTER(c_int64)) if strides else None
        managed.deleter = deleter
        where = ctypes.addressof(managed)
        _out[where] = managed, shape, strides, deleter
        self.managed = managed  # for tests that change what it says
        self.exported += 1
        return _new(where, _NAME, None)

    def _release(self, managed):
        self.released += 1
        where = ctypes.addressof(managed.contents)
        _last[:] = [_out.pop(where, None)]


class Reader:
    """What a capsule says, read with no copy; `close` gives it back to its producer."""

    def __init__(self, capsule):
        self.managed = ctypes.cast(_pointer(capsule, _NAME), POINTER(Managed)).contents
        _rename(capsule, _USED)
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
        self.managed.deleter(ctypes.pointer(self.managed))
