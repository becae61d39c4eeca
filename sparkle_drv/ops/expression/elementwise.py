"""The operations of expressions as numpy functions; they define what each step computes.

They compute in the types of the operands. The host computes scalars with them, traced functions
apply them to numbers, and the float64 references use them. This file uses no device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))  # the exponent is at most 0, so exp cannot overflow
    return np.asarray(np.where(x >= 0, 1 / (1 + small), small / (1 + small)))


ELEMENTWISE: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "min": np.minimum,  # NaN if either operand is NaN, in numpy and in sp_map.h
    "max": np.maximum,
    "neg": np.negative,
    "abs": np.abs,
    "relu": lambda x: np.maximum(x, x.dtype.type(0)),
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "sin": np.sin,
    "cos": np.cos,
    "floor": np.floor,
    "square": np.square,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "where": lambda c, a, b: np.asarray(np.where(np.asarray(c) != 0, a, b)),
}
ARITY = {op: getattr(f, "nin", 1) for op, f in ELEMENTWISE.items()} | {"where": 3}
"""The number of operands of each operation."""
COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


def apply(op: str, *operands: Any) -> Array:
    """Returns the result of `op` for arrays or numbers."""
    with np.errstate(all="ignore"):
        return np.asarray(ELEMENTWISE[op](*(np.asarray(x) for x in operands)))
