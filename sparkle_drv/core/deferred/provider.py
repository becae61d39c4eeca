"""How operators compute: an interface that the layer above fills in.

The module below is imported by the first operator, as a backend is by the first URI that names it.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Any, Protocol, TypeVar, cast

_MODULE = "sparkle_drv.ops.deferred.numpy_api"
X = TypeVar("X")
"""core.Array, which is above this folder."""


class Thunk(Protocol):
    """An array that is not computed yet. `device` is a core.Device."""

    @property
    def device(self) -> Any: ...

    def run(self) -> Any:
        """The Array, in memory of its own; its fence is that of the last launch."""

    def explain(self) -> str:
        """How it will be computed, in one line."""


class Provider(Protocol):
    """The functions of numpy that Arrays have. `x` is an Array; numpy's words otherwise."""

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
