"""Argument checks that the operations share.

Every message names the argument, the expected value and the given value. A wrong type raises
TypeError, a wrong size ValueError, before anything is submitted. This file uses no device.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .quoting import short, shown

U32 = 2**32 - 1  # kernels take sizes and strides as u32
I32 = 2**31 - 1  # limit of sizes and strides where positions are signed, as in conv2d
DTYPES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64", np.dtype(np.int32): "i32"}
"""What kernels of several devices compute in."""
STORED = {
    np.dtype(np.int64): "i64", np.dtype(np.uint8): "u8", np.dtype(bool): "bool",
    np.dtype(np.float16): "f16",
}  # fmt: skip
"""What else arrays may hold where an operation says so, besides bfloat16 ("bf16")."""
TYPES = (*DTYPES.values(), *STORED.values(), "bf16")
_TAGS = DTYPES | STORED
_NAMES = {tag: str(dtype) for dtype, tag in _TAGS.items()} | {"bf16": "bfloat16"}
ACTIVATIONS = {None: 0, "relu": 1, "tanh": 2, "sigmoid": 3}  # enum sp_activation


class NotThere(TypeError):
    """Raised if this device has no kernel for these types; another device may have one."""


class TooLong(NotThere, ValueError):
    """Raised if an expression is too long for this device's kernels; another may compute it."""


def tag_of(dtype: np.dtype[Any]) -> str:
    """Returns the tag of a dtype, such as "f32" for numpy's float32.

    The tag of a dtype that no operation takes is "".
    """
    tag = _TAGS.get(dtype)
    if tag is None:  # bfloat16 is found by its name, because ml_dtypes may not be installed
        tag = "bf16" if dtype.kind == "V" and dtype.name == "bfloat16" else ""
    return tag


def dtype(op: str, name: str, dtype_like: Any, wanted: Sequence[str]) -> str:
    """Returns the tag of dtype `dtype_like`. Raises TypeError if the tag is not among `wanted`."""
    tag = tag_of(np.dtype(dtype_like))
    if tag not in wanted:
        known = " or ".join(_NAMES[t] for t in wanted)
        raise TypeError(f"{short(name)}: {op} takes {known}, got {np.dtype(dtype_like)}")
    return tag


def same_dtype(name: str, given: Any, other: str, wanted: Any) -> None:
    if given != wanted:
        raise TypeError(f"{name}: expected {wanted}, the dtype of {other}, got {given}")


def shape(name: str, given: tuple[int, ...], wanted: tuple[int, ...], why: str) -> None:
    if given != wanted:
        raise ValueError(f"{name}: expected shape {wanted} {why}, got {given}")


def dims(name: str, given: tuple[int, ...], wanted: int, axes: str) -> None:
    if len(given) != wanted:
        raise ValueError(f"{name}: expected {wanted} dimensions {axes}, got shape {given}")


def size(name: str, value: int, most: int = U32) -> int:
    """Returns `value`, a size or stride. Raises ValueError if it is above `most`, the most that a
    kernel takes.
    """
    if value > most:
        raise ValueError(f"{name}: expected at most 2**{most.bit_length()} - 1, got {shown(value)}")
    return value


def index(argument: Any) -> int | None:
    """Returns `argument` as an int; None if `argument` is not a whole number, or is a bool."""
    try:
        return None if isinstance(argument, (bool, np.bool_)) else operator.index(argument)
    except TypeError:
        return None


def whole(name: str, argument: Any, least: int, most: int = U32) -> int:
    """Returns `argument` as an int from `least` to `most`. Raises TypeError, also for a bool.

    Raises ValueError if the number is out of range.
    """
    value = index(argument)
    if value is None:
        raise TypeError(f"{name}: expected a whole number, got {shown(argument)}")
    if value < least:
        raise ValueError(f"{name}: expected {least} or more, got {shown(value)}")
    return size(name, value, most)


def pair(name: str, argument: Any, least: int) -> tuple[int, int]:
    """Returns an option of conv2d as (vertical, horizontal); one number counts for both axes."""
    if isinstance(argument, (tuple, list)):
        if len(argument) != 2:
            raise ValueError(
                f"{name}: expected one number or two (vertical, horizontal), got {shown(argument)}"
            )
    else:
        argument = argument, argument
    return whole(name, argument[0], least, I32), whole(name, argument[1], least, I32)


def one_of(name: str, argument: Any, known: Sequence[Any]) -> Any:
    if not (argument is None or isinstance(argument, str)):
        raise TypeError(f"{name}: expected {_or(known)}, got {shown(argument)}")
    if argument not in known:
        raise ValueError(f"{name}: expected {_or(known)}, got {shown(argument)}")
    return argument


def activation(given: Any) -> int:
    return ACTIVATIONS[one_of("activation", given, tuple(ACTIVATIONS))]


def _or(known: Sequence[Any]) -> str:
    *most, last = (repr(k) for k in known)
    return f"{', '.join(most)} or {last}" if most else last
