"""Provider: the interface by which operators compute; the layer above implements it.

The first operator imports the module _MODULE, as the first URI of a scheme imports its backend.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Any, Protocol, TypeVar, cast

_MODULE = "sparkle_drv.ops.deferred.numpy_api"
X = TypeVar("X")
"""core.Array, which this folder must not import."""


class Thunk(Protocol):
    """The computation of an array that is not computed yet. `device` is a core.Device."""

    @property
    def device(self) -> Any: ...

    def run(self) -> Any:
        """The computed Array, in its own memory; its fence is that of the last launch."""

    def explain(self) -> str:
        """One line that says how the array will be computed."""


class Provider(Protocol):
    """The numpy functions of Arrays. `x` is an Array; the other arguments are numpy's."""

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


@lru_cache(maxsize=1)
def provider() -> Provider:
    return cast(Provider, importlib.import_module(_MODULE))
