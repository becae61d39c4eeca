"""The Python array API standard, version 2024.12: what `x.__array_namespace__()` returns.

The standard says what each function does. docs/api.md says which kinds of functions exist here.
Results are on the device of the operands. New arrays are on `device`, an open Device, or on the cpu
device of this process. If no kernel computes a function, numpy computes the result on the host, and
`explain()` of the result says so. Wrong arguments raise TypeError or ValueError, as the methods of
an Array do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.ops.deferred import numpy_api, views
from sparkle_drv.ops.deferred.build import device_of, on_host

from .creation import arange as arange
from .creation import array_of, asarray, cpu_device, filled
from .creation import from_dlpack as from_dlpack
from .creation import full as full
from .creation import full_like as full_like

__array_api_version__ = "2024.12"
e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi
finfo, iinfo = np.finfo, np.iinfo

_DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64"
_DTYPES += " complex128"
_UNARY = (
    "abs ceil cos cosh exp expm1 floor isfinite isinf isnan log log1p log2 log10 logical_not "
    "negative positive reciprocal sign signbit sin sinh sqrt square tan tanh trunc acos=arccos "
    "acosh=arccosh asin=arcsin asinh=arcsinh atan=arctan atanh=arctanh bitwise_invert=invert "
    "conj=conjugate imag real round=rint"
)
"""Names of the standard; "acos=arccos" is a name of the standard and numpy's different name."""
_BINARY = (
    "add bitwise_and bitwise_or bitwise_xor copysign divide equal floor_divide greater "
    "greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum "
    "minimum multiply nextafter not_equal remainder subtract atan2=arctan2 pow=power "
    "bitwise_left_shift=left_shift bitwise_right_shift=right_shift"
)
_REDUCTIONS = ("all", "any", "argmax", "argmin", "max", "mean", "min")
_ROUNDING = ("ceil", "floor", "rint", "trunc")


def _unary(ufunc: str) -> Callable[[Array], Array]:
    def function(x: Array, /) -> Array:
        if ufunc in _ROUNDING and array_of(x).dtype.kind in "iu":
            return views.copy(x)
        if ufunc in ("imag", "real"):  # not ufuncs in numpy
            return on_host(array_of(x).device, ufunc, (x,))
        return numpy_api.ufunc(ufunc, (array_of(x),))

    return function


def _binary(ufunc: str) -> Callable[[Any, Any], Array]:
    def function(x1: Any, x2: Any, /) -> Array:
        if not isinstance(x1, Array):
            array_of(x2)
        return numpy_api.ufunc(ufunc, (x1, x2))

    return function


def astype(x: Array, dtype: Any, /, *, copy: Any = True, device: Device | None = None) -> Array:
    """Does what Array.astype does. With `copy` false, returns x itself if it has this dtype."""
    return asarray(array_of(x), dtype=dtype, device=device, copy=copy or None)


def result_type(*arrays_and_dtypes: Any) -> Any:
    """Returns the dtype to which the arguments promote."""
    return np.result_type(*(getattr(x, "dtype", x) for x in arrays_and_dtypes))


def can_cast(from_: Any, to: Any, /) -> Any:
    """Returns whether promotion may convert dtype `from_` to dtype `to`."""
    return np.can_cast(getattr(from_, "dtype", from_), to)


def isdtype(dtype: Any, kind: Any) -> Any:
    """Returns whether `dtype` is of `kind`, a dtype or a word such as "integral"."""
    return np.isdtype(dtype, kind)


def reshape(x: Array, /, shape: Any, *, copy: Any = None) -> Array:
    """Does what Array.reshape does; with `copy` true it reshapes a copy."""
    return (views.copy(array_of(x)) if copy else array_of(x)).reshape(shape)


def permute_dims(x: Array, /, axes: Any) -> Array:
    """Does what Array.transpose does."""
    return array_of(x).transpose(*axes)


def matrix_transpose(x: Array, /) -> Array:
    """Returns x with its last two dimensions exchanged."""
    return array_of(x).mT


def where(condition: Array, x1: Any, x2: Any, /) -> Array:
    """Returns elements of x1 where `condition` is true, of x2 elsewhere; computed on the host."""
    given = (array_of(condition), x1, x2)
    return on_host(device_of(given), "where", given)


def matmul(x1: Array, x2: Array, /) -> Array:
    """Returns x1 @ x2."""
    return numpy_api.matmul(x1, x2)


def _reduction(name: str) -> Callable[..., Array]:
    def function(x: Array, /, *, axis: Any = None, keepdims: bool = False) -> Array:
        return numpy_api.reduction(array_of(x), name, axis, keepdims)

    return function


def _total(name: str) -> Callable[..., Array]:
    def function(
        x: Array, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False
    ) -> Array:
        given = array_of(x) if dtype is None else asarray(x, dtype=dtype)
        made: Array = numpy_api.reduction(given, name, axis, keepdims)
        return made if dtype is None else asarray(made, dtype=dtype)

    return function


def __array_namespace_info__() -> Any:
    """Returns the standard's inspection object: capabilities, dtypes and devices."""
    default = {"real floating": "float64", "complex floating": "complex128", "integral": "int64"}

    def dtypes(*, device: Any = None, kind: Any = None) -> dict[str, Any]:
        return {n: d for n, d in _TYPES.items() if kind is None or np.isdtype(d, kind)}

    return SimpleNamespace(
        capabilities=lambda: {
            "boolean indexing": False, "data-dependent shapes": False, "max dimensions": None,
        },
        default_device=cpu_device,
        default_dtypes=lambda *, device=None: {
            kind: np.dtype(name) for kind, name in {**default, "indexing": "int64"}.items()
        },
        devices=lambda: [cpu_device()],
        dtypes=dtypes,
    )  # fmt: skip


def _named() -> dict[str, Any]:
    """Returns the functions that are made from the tables above, by the standard's names."""
    functions: dict[str, Any] = {}
    for names, make in ((_UNARY, _unary), (_BINARY, _binary)):
        for text in names.split():
            name, _, ufunc = text.partition("=")
            functions[name] = make(ufunc or name)
    functions |= {name: _reduction(name) for name in _REDUCTIONS}
    functions |= {name: _total(name) for name in ("prod", "sum")}
    for name, value in (("empty", 0), ("zeros", 0), ("ones", 1)):
        functions[name], functions[f"{name}_like"] = filled(value)
    for name, function in functions.items():
        function.__name__ = function.__qualname__ = name
        function.__doc__ = "As the array API standard has it."
    return functions


_TYPES = {name: np.dtype(name) for name in _DTYPES.split()}
globals().update({**_TYPES, **_named()})
