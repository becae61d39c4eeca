"""How the operators of arrays compute: an interface that the layer above implements.

The first operator that a program uses imports the implementing module, which ARRAYS names.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Any, Protocol, TypeVar, cast

ARRAYS = "sparkle_drv.ops.deferred.numpy_api"
"""The module that computes core.Array's operators. Arrays of a Context name another module."""
X = TypeVar("X", bound="HasOperators")
"""core.Array, which is above this folder, or the class above it that has the same operators."""


class HasOperators(Protocol):
    """An array with operators. The module named `_PROVIDER` computes what the operators return."""

    _PROVIDER: str


class Thunk(Protocol):
    """What an Array that is not computed yet has instead of memory. `device` is a core.Device."""

    @property
    def device(self) -> Any: ...

    def run(self) -> Any:
        """Computes the array and returns it.

        The result has memory of its own and the fence of the last launch.
        """

    def explain(self) -> str:
        """Returns one line that says how this array will be computed."""


class Provider(Protocol):
    """The functions that compute the operators of Arrays.

    `x` is an Array. The other arguments are named as in numpy.
    """

    def ufunc(self, name: str, operands: tuple[object, ...]) -> Any: ...
    def update(self, name: str, x: X, operand: object) -> X: ...
    def numpy_ufunc(
        self, ufunc: Any, method: str, inputs: tuple[object, ...], options: dict[str, Any]
    ) -> Any: ...
    def matmul(self, a: object, b: object) -> Any: ...
    def getitem(self, x: X, key: object) -> X: ...
    def setitem(self, x: object, key: object, value: object) -> None: ...
    def transpose(self, x: X, axes: tuple[object, ...]) -> X: ...
    def astype(self, x: X, dtype: object) -> X: ...
    def reduction(self, x: X, op: str, axis: object, keepdims: bool) -> X: ...


@lru_cache(maxsize=2)
def provider(module: str) -> Provider:
    """Imports and returns the module of this name, whose functions compute the operators."""
    return cast(Provider, importlib.import_module(module))


def namespace(api_version: str | None) -> Any:
    """Returns the module with the functions of the array API standard.

    Raises ValueError if the module implements another version.
    """
    module = importlib.import_module("sparkle_drv.ops.array_api")
    known = module.__array_api_version__
    if api_version not in (None, known):
        raise ValueError(f"api_version: expected {known} or None, got {api_version!r}")
    return module
