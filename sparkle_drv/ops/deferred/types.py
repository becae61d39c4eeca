"""numpy's result types (NEP 50), and which operations on Arrays a map can compute. This file uses
no device.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.expression import promote
from sparkle_drv.ops.expression.elementwise import ELEMENTWISE

Kind = np.dtype[Any] | type
"""The kind of an operand: a dtype, or int, float or complex for a Python number.

Python's numbers are weak: they take the dtype of the other operand (NEP 50).
"""
BOOL = np.dtype(bool)
MAPPED = {f.__name__: op for op, f in ELEMENTWISE.items() if isinstance(f, np.ufunc)}
_OF_TRUTHS = {
    "bitwise_and": "mul", "logical_and": "mul", "bitwise_or": "add", "logical_or": "add",
    "bitwise_xor": "ne", "logical_xor": "ne",
}  # fmt: skip
"""ufunc -> the operation by which maps compute it for truths, which are 0 or 1."""
INVERTS = frozenset({"invert", "logical_not"})
"""ufuncs that maps compute for truths by a comparison with True."""
HOST = frozenset(
    {*_OF_TRUTHS, "floor_divide", "remainder", "fmod", "invert", "logical_not", "left_shift"}
    | {"right_shift", "ceil", "trunc", "rint", "sign", "isnan", "isinf", "isfinite", "reciprocal"}
    | {"log2", "log10", "log1p", "exp2", "expm1", "tan", "arctan", "arctan2", "hypot"}
)
"""ufuncs that numpy computes on the host."""
# Operations of integers that no map computes: numpy computes them on the host.
_INEXACT_OF_WHOLE = frozenset({"pow", "floor"})


class TypedStep(NamedTuple):
    """A step of an expression.

    `dtype` is the dtype of the result. `op` is the map's operation, "" if no map computes the step.
    `tag` is the type in which the map computes; "" if all operands are bool, or no map computes it.
    """

    dtype: np.dtype[Any]
    op: str
    tag: str


def typed(name: str, kinds: tuple[Kind, ...]) -> TypedStep:
    """Returns the step of an expression that computes numpy's ufunc `name` of operands of these
    kinds.

    Raises numpy's TypeError if the ufunc does not take these kinds.
    """
    ufunc = getattr(np, name)
    samples = [np.empty(0, k) if isinstance(k, np.dtype) else k(1) for k in kinds]
    dtype = ufunc(*samples).dtype
    if name in _OF_TRUTHS and all(k == BOOL for k in kinds):
        return TypedStep(dtype, _OF_TRUTHS[name], "")
    op = MAPPED.get(name, "")
    if not op or complex in kinds:
        return TypedStep(dtype, "", "")
    try:
        met, result = promote.rule(op, tuple(_named(k) for k in kinds))
        same = np.dtype(promote.dtype_name(result)) == dtype
    except TypeError:
        return TypedStep(dtype, "", "")
    whole = promote.is_whole(met) and op in _INEXACT_OF_WHOLE
    if not same or whole or met not in check.TYPES:
        return TypedStep(dtype, "", "")
    return TypedStep(dtype, op, met)


def fits(value: float, tag: str) -> bool:
    """Returns whether a map can take this number in a step that computes in `tag`.

    If the map cannot, numpy computes the step.
    """
    if tag == "bool":
        return True
    if promote.is_whole(tag):
        limits = np.iinfo(promote.dtype_name(tag))
        return limits.min <= value <= limits.max
    try:
        number = abs(float(value))
    except OverflowError:
        return False
    return number <= promote.most(tag) or not math.isfinite(number)


def _named(kind: Kind) -> str:
    return kind.__name__ if isinstance(kind, type) else check.tag_of(kind) or kind.name
