"""The functions that compute the operators of Arrays (interface: core/deferred/provider.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array

from . import types
from .build import expression as ufunc
from .build import update
from .reductions import matmul, reduction
from .views import astype, getitem, setitem, transpose

__all__ = ["astype", "getitem", "matmul", "numpy_ufunc", "reduction", "setitem", "transpose"]
__all__ += ["ufunc", "update"]


def numpy_ufunc(
    function: Any, method: str, inputs: tuple[object, ...], options: dict[str, Any]
) -> Array:
    """Computes a ufunc that numpy was called with, such as np.sin(x); `out=` may be an Array."""
    result: Array = called(function, method, inputs, options, (Array, ufunc, matmul, setitem))
    return result


def called(
    function: Any, method: str, inputs: tuple[object, ...], options: dict[str, Any],
    by: tuple[type[Any], Callable[..., Any], Callable[..., Any], Callable[..., Any]],
) -> Any:  # fmt: skip
    """Computes a call of numpy's ufunc `function`.

    `by` has four members: the class of the arrays, and for this class the functions that compute a
    ufunc, a matrix product and an assignment to elements.
    """
    kind, ufunc, matmul, setitem = by
    name = str(function.__name__)
    if method != "__call__":
        hint = f"x.{_METHODS[name]}()" if method == "reduce" and name in _METHODS else "x.numpy()"
        raise TypeError(f"numpy.{name}.{method}: expected a plain call of Arrays; use {hint}")
    (out,) = options.pop("out", None) or (None,)
    options = {k: v for k, v in options.items() if v is not None}
    if options:
        raise TypeError(f"numpy.{name}: expected no {', '.join(options)} with Arrays")
    if out is not None and not isinstance(out, kind):
        raise TypeError(
            f"out: expected {kind.__name__}, the class of an operand, got {type(out).__name__}; "
            "call numpy with x.numpy() for a result in a host array"
        )
    if function is np.matmul:
        result = matmul(*inputs)
    elif getattr(np, name, None) is function and (name in types.MAPPED or name in types.HOST):
        result = ufunc(name, inputs)
    else:
        raise TypeError(
            f"numpy.{name} does not compute on devices: call it with x.numpy(), a host array"
        )
    if out is None:
        return result
    if not np.can_cast(result.dtype, out.dtype, "same_kind"):
        raise TypeError(f"out: expected dtype {result.dtype}, got {out.dtype}")
    if result.shape != out.shape:
        raise ValueError(f"out: expected shape {result.shape}, got {out.shape}")
    setitem(out, ..., result)
    return out


_METHODS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}
_METHODS |= {"logical_or": "any", "logical_and": "all"}
