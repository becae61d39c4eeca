"""Closing: the base class of objects that a `with` block closes."""

from __future__ import annotations

from typing import Any, TypeVar

from sparkle_drv.errors import leave

_T = TypeVar("_T", bound="Closing")


class Closing:
    """The base class of objects with a `close`, which the end of a `with` block calls.

    `BRIEFLY` has the timeout that `close` gets if Ctrl-C ends the block. `BRIEFLY` is empty if
    `close` takes no timeout.
    """

    __slots__ = ()
    close: Any
    BRIEFLY: tuple[float, ...] = ()

    def __enter__(self: _T) -> _T:
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        leave(self.close, error, *self.BRIEFLY)
