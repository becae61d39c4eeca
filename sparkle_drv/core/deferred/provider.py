"""How operators compute: an interface that the layer above fills in.

The module below is imported by the first operator, as a backend is by the first URI that names it.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from sparkle_drv.core.array import Array
    from sparkle_drv.core.device import Device

_MODULE = "sparkle_drv.ops.deferred.numpy_api"


class Thunk(Protocol):
    """An array that is not computed yet."""

    @property
    def device(self) -> Device: ...

    def run(self) -> Array:
        """The array, in memory of its own; its fence is that of the last launch."""

    def explain(self) -> str:
        """How it will be computed, in one line."""


class Provider(Protocol):
    """The functions of numpy that Arrays have. `x` is an Array; numpy's words otherwise."""

    def ufunc(self, name: str, operands: tuple[object, ...]) -> Array: ...
    def update(self, name: str, x: Array, operand: object) -> Array: ...
    def numpy_ufunc(
        self, ufunc: Any, method: str, inputs: tuple[object, ...], options: dict[str, Any]
    ) -> Array: ...
    def matmul(self, a: object, b: object) -> Array: ...
    def getitem(self, x: Array, key: object) -> Array: ...
    def setitem(self, x: Array, key: object, value: object) -> None: ...
    def transpose(self, x: Array, axes: tuple[object, ...]) -> Array: ...
    def astype(self, x: Array, dtype: object) -> Array: ...
    def reduction(self, x: Array, op: str, axis: object, keepdims: bool) -> Array: ...


@lru_cache(maxsize=1)
def provider() -> Provider:
    return cast(Provider, importlib.import_module(_MODULE))
