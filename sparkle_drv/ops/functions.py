"""The functions of maps, for traced functions (symbol.py). They also take numbers and numpy arrays.

numpy's functions of the same meaning work too: np.tanh(x) and functions.tanh(x) are the same.
"""

from __future__ import annotations

from typing import Any

from sparkle_drv.ops.expression.symbol import called


def exp(x: Any) -> Any:
    """e**x."""
    return called("exp", x)


def log(x: Any) -> Any:
    """The natural logarithm."""
    return called("log", x)


def sqrt(x: Any) -> Any:
    """The square root."""
    return called("sqrt", x)


def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return called("tanh", x)


def sigmoid(x: Any) -> Any:
    """1 / (1 + e**-x)."""
    return called("sigmoid", x)


def sin(x: Any) -> Any:
    """The sine of x in radians."""
    return called("sin", x)


def cos(x: Any) -> Any:
    """The cosine of x in radians."""
    return called("cos", x)


def floor(x: Any) -> Any:
    """The largest whole number that is not larger than x."""
    return called("floor", x)


def square(x: Any) -> Any:
    """x * x."""
    return called("square", x)


def relu(x: Any) -> Any:
    """x where x is positive, else 0; NaN stays NaN."""
    return called("relu", x)


def minimum(x: Any, y: Any) -> Any:
    """The smaller of x and y, NaN if one is NaN. An expression calls it `min`."""
    return called("min", x, y)


def maximum(x: Any, y: Any) -> Any:
    """The larger of x and y, NaN if one is NaN. An expression calls it `max`."""
    return called("max", x, y)


def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition is true (not 0), else y."""
    return called("where", condition, x, y)
