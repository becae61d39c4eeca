"""Bits that say which array elements a pointer argument takes.

An Array has the bit of its dtype. A Buffer, which is bytes, has all bits. A pointer argument has
the bits that it takes. Signed and unsigned integers of one size have the same bit. bf16, which
numpy does not have, matches any 16-bit integer. Pointers to bytes (u8*, i8*) take any elements.

READONLY says that the memory must not be written. BORROWED says that the memory lives only as long
as the pointer object, so a launch keeps that object until the launch has ended. All these bits are
in one number, so a launch makes one test per pointer.
"""

from __future__ import annotations

from typing import Any

_BITS = {"f8": 1, "f4": 2, "f2": 4, "i8": 8, "i4": 16, "i2": 32, "i1": 64}
_INTEGERS = {"u": "i", "b": "i", "bf": "i"}
ANY = 127
READONLY = 128
BORROWED = 256
# Element type of a pointer -> mask of the array element types that it accepts (bits of _BITS).
POINTERS = {"f64": 1, "f32": 2, "f16": 4, "bf16": 32, "i8": ANY, "u8": ANY}
POINTERS |= {f"{sign}{bits}": bit for sign in "iu" for bits, bit in ((64, 8), (32, 16), (16, 32))}


def of_dtype(dtype: Any) -> int:
    """Returns the bit that stands for a numpy dtype.

    Returns 0 if no kernel type fits (complex, other byte orders).
    """
    kind = "bf" if dtype.kind == "V" and dtype.name == "bfloat16" else dtype.kind
    return of_kind(kind, dtype.itemsize) if dtype.isnative else 0


def of_kind(kind: str, nbytes: int) -> int:
    """Returns the bit that stands for elements of `nbytes` bytes.

    `kind` is numpy's kind (f, i, u, b), or "bf".
    """
    return _BITS.get(f"{_INTEGERS.get(kind, kind)}{nbytes}", 0)
