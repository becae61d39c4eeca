"""Loads the numpy function that judges a user's kernel: --ref FILE.py:function. The user's own
code, run as such.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _console.problems import UsageError


def load_reference(text: str) -> Callable[..., Any]:
    """The function of "ref.py:saxpy". Raises UsageError when the file, or the function in it,
    cannot be had.
    """
    file, colon, name = text.rpartition(":")
    if not colon or not file or not name:
        raise UsageError(f"--ref {text!r}: FILE.py:function is wanted")
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"--ref: no such file: {file}")
    spec = importlib.util.spec_from_file_location("sparkle_bench_reference", path)
    if path.suffix != ".py" or spec is None or spec.loader is None:
        raise UsageError(f"--ref {file}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a user's file may raise anything, SystemExit too
        raise UsageError(f"--ref {file}: {type(error).__name__}: {error}") from error
    function: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"--ref {file}: there is no function {name!r} in it")
    return function
