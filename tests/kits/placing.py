"""Calls of a Context whose executor a test has made itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkle_drv.sched.operations.table import OPERATIONS
from sparkle_drv.sched.run import calls
from sparkle_drv.sched.run.local import LocalExecutor


def placed(
    executor: LocalExecutor, uris: tuple[str, ...], name: str, /, *given: Any, **named: Any
) -> Any:
    """The operation of this name on one of `uris`."""
    out = named.pop("out", None)
    return calls.call(executor, uris, OPERATIONS[name], given, named, out)


def patch(monkeypatch: Any, name: str, function: Callable[..., Any]) -> None:
    """Has the calls of an operation run `function` in place of that of ops."""
    monkeypatch.setattr(type(OPERATIONS[name]), "function", staticmethod(function))
