"""Calls of a Context whose executor a test has made itself."""

from __future__ import annotations

from typing import Any

from sparkle_drv import ops
from sparkle_drv.sched.run import calls, fast_path
from sparkle_drv.sched.run.local import LocalExecutor


def placed(
    executor: LocalExecutor, uris: tuple[str, ...], name: str, /, *given: Any, **named: Any
) -> Any:
    """The operation of this name on one of `uris`."""
    how = getattr(ops, name), getattr(calls, name), given, named, named.pop("out", None)
    return fast_path.call(executor, uris, *how)
