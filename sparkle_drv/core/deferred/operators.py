"""Operators: numpy's operators, indexing and reductions of an Array.

Nothing is computed here: the provider builds an expression, or raises an error of one line. Names
and rules are numpy's (NEP 50 for types). docs/getting-started.md says which results share memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

from sparkle_drv.core.deferred.provider import ARRAYS, X, provider

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from typing_extensions import Self

    Operand: TypeAlias = "Operators | complex | np.generic | npt.NDArray[Any]"
    Axis: TypeAlias = int | tuple[int, ...] | None


def _ufunc(x: X, name: str, *operands: object) -> X:
    """Returns numpy's ufunc `name` of the operands, one of which is x."""
    return cast(X, provider(x._PROVIDER).ufunc(name, operands))


def _one_operand(name: str) -> Callable[[X], X]:
    return lambda x: _ufunc(x, name, x)


def _binary(
    name: str,
) -> tuple[Callable[[X, Operand], X], Callable[[X, Operand], X], Callable[[X, Operand], X]]:
    """Returns the methods for `x op other`, `other op x` and `x op= other`."""
    return (
        lambda x, other: _ufunc(x, name, x, other),
        lambda x, other: _ufunc(x, name, other, x),
        lambda x, other: provider(x._PROVIDER).update(name, x, other),
    )


class Operators:
    """Operators and methods of numpy's ndarray, for core.Array and the arrays of a Context."""

    __slots__ = ()
    _PROVIDER = ARRAYS

    __add__, __radd__, __iadd__ = _binary("add")
    __sub__, __rsub__, __isub__ = _binary("subtract")
    __mul__, __rmul__, __imul__ = _binary("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _binary("divide")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _binary("floor_divide")
    __mod__, __rmod__, __imod__ = _binary("remainder")
    __rpow__, __ipow__ = _binary("power")[1:]
    __and__, __rand__, __iand__ = _binary("bitwise_and")
    __or__, __ror__, __ior__ = _binary("bitwise_or")
    __xor__, __rxor__, __ixor__ = _binary("bitwise_xor")
    __lshift__, __rlshift__, __ilshift__ = _binary("left_shift")
    __rshift__, __rrshift__, __irshift__ = _binary("right_shift")
    __neg__, __abs__ = _one_operand("negative"), _one_operand("absolute")
    __invert__ = _one_operand("invert")
    __lt__, __le__ = _binary("less")[0], _binary("less_equal")[0]
    __gt__, __ge__ = _binary("greater")[0], _binary("greater_equal")[0]

    def __pow__(self, exponent: Operand) -> Self:
        # As in numpy, these operators are not numpy.power: bool ** 2 is int8, -inf ** 0.5 is NaN.
        x: Any = self
        if type(exponent) is int and exponent == 2:
            return _ufunc(self, "square", self)
        if type(exponent) is float and exponent == 0.5 and x.dtype.kind in "fcV":
            return _ufunc(self, "sqrt", self)
        return _ufunc(self, "power", self, exponent)

    def __pos__(self) -> Self:
        x: Any = self
        if x.dtype == bool:
            raise TypeError("numpy has no + of bool")
        return self

    def __eq__(self, other: Operand) -> Self:  # type: ignore[override]
        """Compares element by element; use `x is y` for identity."""
        return _ufunc(self, "equal", self, other)

    def __ne__(self, other: Operand) -> Self:  # type: ignore[override]
        return _ufunc(self, "not_equal", self, other)

    def __matmul__(self, other: Operand) -> Self:
        return cast("Self", provider(self._PROVIDER).matmul(self, other))

    def __rmatmul__(self, other: Operand) -> Self:
        return cast("Self", provider(self._PROVIDER).matmul(other, self))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Self:
        """Computes numpy's ufuncs, such as np.sin(x) or np.add(x, 1).

        Raises TypeError for a ufunc that ops/deferred/types.py does not list.
        """
        return cast("Self", provider(self._PROVIDER).numpy_ufunc(ufunc, method, inputs, options))

    def __array_function__(self, function: Any, *_: object) -> NoReturn:
        raise TypeError(
            f"numpy.{function.__name__} does not compute on devices: "
            "call it with x.numpy(), a host array"
        )

    def __hash__(self) -> int:
        raise TypeError("unhashable type: 'Array', because == is elementwise; use id(x)")

    def __contains__(self, value: object) -> NoReturn:
        raise TypeError("`in` is not possible for an Array: use (x == value).any()")

    def __iter__(self) -> Iterator[NoReturn]:
        raise TypeError("an Array is not iterable: use x.numpy(), or x[i] for i in range(len(x))")

    def __getitem__(self, key: object) -> Self:
        """Returns the elements at ints, slices, `...` and None.

        The result is a view if the elements are contiguous, otherwise a copy. Raises IndexError,
        TypeError (a mask, a list), ValueError (step 0, a closed array).
        """
        return provider(self._PROVIDER).getitem(self, key)

    def __setitem__(self, key: object, value: Operand) -> None:
        """Writes `value`, which is broadcast and converted to this dtype.

        Returns when the elements are written. Raises the errors of `x[key]`. Raises ValueError if
        the shapes do not broadcast, if x is read-only, or if `value` is on another device.
        """
        provider(self._PROVIDER).setitem(self, key, value)

    @property
    def T(self) -> Self:
        """The array with its dimensions reversed.

        The result is a copy if two or more dimensions are longer than 1.
        """
        return provider(self._PROVIDER).transpose(self, ())

    @property
    def mT(self) -> Self:
        """The array with its last two dimensions exchanged.

        Raises ValueError if the array has fewer than two dimensions.
        """
        x: Any = self
        if x.ndim < 2:
            raise ValueError(f"mT: expected 2 dimensions or more, got shape {x.shape}")
        axes = *range(x.ndim - 2), x.ndim - 1, x.ndim - 2
        return provider(self._PROVIDER).transpose(self, axes)

    def transpose(self, *axes: Any) -> Self:
        """Returns the array with its dimensions permuted: dimension i was dimension `axes[i]`.

        Without `axes` the dimensions are reversed. Raises TypeError if `axes` are not whole
        numbers, ValueError if they do not name each dimension once.
        """
        return provider(self._PROVIDER).transpose(self, axes)

    def astype(self, dtype: npt.DTypeLike) -> Self:
        """Returns a copy in another dtype; "bf16" stands for bfloat16.

        `explain()` of the copy says whether the host converted it. Raises TypeError if `dtype` is
        not a dtype of numpy, or has no fixed size.
        """
        return provider(self._PROVIDER).astype(self, dtype)

    def sum(self, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Returns the sum over `axis`: one axis, several, or None for all.

        This and the following reductions raise the errors of numpy's methods.
        """
        return provider(self._PROVIDER).reduction(self, "sum", axis, keepdims)

    def mean(self, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Returns the mean over `axis`."""
        return provider(self._PROVIDER).reduction(self, "mean", axis, keepdims)

    def prod(self, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Returns the product over `axis`, computed on the host."""
        return provider(self._PROVIDER).reduction(self, "prod", axis, keepdims)

    def max(self, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Returns the largest element over `axis`, or NaN if an element is NaN."""
        return provider(self._PROVIDER).reduction(self, "max", axis, keepdims)

    def min(self, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Returns the smallest element over `axis`, or NaN if an element is NaN."""
        return provider(self._PROVIDER).reduction(self, "min", axis, keepdims)

    def any(self, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Returns whether any element over `axis` is not 0; computed on the host."""
        return provider(self._PROVIDER).reduction(self, "any", axis, keepdims)

    def all(self, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Returns whether all elements over `axis` are not 0; computed on the host."""
        return provider(self._PROVIDER).reduction(self, "all", axis, keepdims)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """Returns the int64 index of the first largest element; computed on the host."""
        return provider(self._PROVIDER).reduction(self, "argmax", axis, keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """Returns the int64 index of the first smallest element; computed on the host."""
        return provider(self._PROVIDER).reduction(self, "argmin", axis, keepdims)

    def item(self) -> Any:
        """Returns the only element as a Python number, after waiting for `fence`.

        Raises ValueError unless the array has exactly one element.
        """
        x: Any = self
        if x.size != 1:
            raise ValueError(
                f"expected an Array of one element, got shape {x.shape}: use any() or all()"
            )
        return x.get(*(0,) * x.ndim).item()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        value = self.item()
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"expected an Array of one whole number, got {value!r}")
        return value

    def __complex__(self) -> complex:
        return complex(self.item())
