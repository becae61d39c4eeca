"""The functions that traced functions (symbol.py) may call. They also take numbers and numpy
arrays.

numpy's functions of the same meaning work too: np.tanh(x) and functions.tanh(x) are the same.
"""

from __future__ import annotations

from typing import Any

from sparkle_drv.ops.expression.symbol import called


def exp(x: Any) -> Any:
    """Returns e**x.

    >>> functions.exp(np.float64(0))
    np.float64(1.0)
    """
    return called("exp", x)


def log(x: Any) -> Any:
    """Returns the natural logarithm of x.

    >>> functions.log(np.float64(1))
    np.float64(0.0)
    """
    return called("log", x)


def sqrt(x: Any) -> Any:
    """Returns the square root of x.

    >>> functions.sqrt(np.float64(9))
    np.float64(3.0)
    """
    return called("sqrt", x)


def tanh(x: Any) -> Any:
    """Returns the hyperbolic tangent of x.

    >>> functions.tanh(np.float64(0))
    np.float64(0.0)
    """
    return called("tanh", x)


def sigmoid(x: Any) -> Any:
    """Returns 1 / (1 + e**-x).

    >>> functions.sigmoid(np.float64(0))
    np.float64(0.5)
    """
    return called("sigmoid", x)


def sin(x: Any) -> Any:
    """Returns the sine of x, which is in radians.

    >>> functions.sin(np.float64(0))
    np.float64(0.0)
    """
    return called("sin", x)


def cos(x: Any) -> Any:
    """Returns the cosine of x, which is in radians.

    >>> functions.cos(np.float64(0))
    np.float64(1.0)
    """
    return called("cos", x)


def floor(x: Any) -> Any:
    """Returns the largest whole number that is not larger than x.

    >>> functions.floor(np.array([-1.5, 1.5]))
    array([-2.,  1.])
    """
    return called("floor", x)


def square(x: Any) -> Any:
    """Returns x * x.

    >>> functions.square(np.array([-3.0, 2.0]))
    array([9., 4.])
    """
    return called("square", x)


def relu(x: Any) -> Any:
    """Returns x where x is positive, else a 0 of either sign; NaN stays NaN.

    >>> sp.ops.map(dev, lambda x: functions.relu(x), np.array([-3.0, 2.0]))
    array([0., 2.])
    """
    return called("relu", x)


def minimum(x: Any, y: Any) -> Any:
    """Returns the smaller of x and y, NaN if one is NaN. Its name in expressions is `min`.

    >>> functions.minimum(np.array([1.0, 5.0]), 3.0)
    array([1., 3.])
    """
    return called("min", x, y)


def maximum(x: Any, y: Any) -> Any:
    """Returns the larger of x and y, NaN if one is NaN. Its name in expressions is `max`.

    >>> functions.maximum(np.array([1.0, 5.0]), 3.0)
    array([3., 5.])
    """
    return called("max", x, y)


def where(condition: Any, x: Any, y: Any) -> Any:
    """Returns x where the condition is true (not 0), else y.

    >>> sp.ops.map(dev, lambda x: functions.where(x > 0, x, 10.0), np.array([-3.0, 2.0]))
    array([10.,  2.])
    """
    return called("where", condition, x, y)
