"""Other functions for a queue of a native backend, in place of those that C calls through it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from sparkle_drv._native import ffi

from sparkle_drv.core.queue import Queue

_TYPES = {name: field.type for name, field in ffi.typeof("struct sp_functions").fields}


def made(before: Any = None, **given: Callable[..., int] | int) -> tuple[Any, Any]:
    """A struct sp_functions like `before` but for what is given, and what it needs alive."""
    table = ffi.new("struct sp_functions *", *([before[0]] if before else []))
    kept: list[Any] = [table]
    for name, value in given.items():
        if callable(value):
            value = ffi.callback(_TYPES[name], value)
            kept.append(value)
        setattr(table, name, value)
    return table, kept


@contextlib.contextmanager
def changed(queue: Queue, **given: Callable[..., int] | int) -> Iterator[None]:
    """C calls these of `queue` meanwhile; Python's calls go the way they went."""
    handle = ffi.cast("struct sp_handle *", queue._handle)
    before = handle.functions
    table, kept = made(before, **given)
    handle.functions = table
    try:
        yield
    finally:
        handle.functions = before
        del kept
