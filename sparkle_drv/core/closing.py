"""Closing: what the end of a `with` block closes."""

from __future__ import annotations

from typing import Any, TypeVar

from sparkle_drv.errors import leave

_T = TypeVar("_T", bound="Closing")


class Closing:
    """`close` takes a timeout if `BRIEFLY` has one: for a block that an interrupt ends."""

    __slots__ = ()
    close: Any
    BRIEFLY: tuple[float, ...] = ()

    def __enter__(self: _T) -> _T:
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        leave(self.close, error, *self.BRIEFLY)
