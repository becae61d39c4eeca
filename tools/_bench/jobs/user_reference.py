"""The numpy function that judges a user's kernel: --ref FILE.py:function. The function is the
user's code and runs with the tool's rights.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from _console.problems import UsageError

from .fills import Array
from .job import Arg, Operand


def load_reference(text: str) -> Callable[..., Any]:
    """Returns the function of "ref.py:saxpy". Raises UsageError if the file or function
    is missing.
    """
    file, colon, name = text.rpartition(":")
    if not colon or not file or not name:
        raise UsageError(f"--ref: expected FILE.py:function, got {text!r}")
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"--ref: no such file: {file}")
    function: Callable[..., Any] | None = getattr(
        _module(file, path.stat().st_mtime_ns), name, None
    )
    if not callable(function):
        raise UsageError(f"--ref {file}: the file has no function {name!r}")
    return function


@lru_cache(maxsize=8)
def _module(file: str, changed: int) -> ModuleType:
    """Runs the file and returns its module. `changed` is the file's time of change: an unchanged
    file is not run again. Raises UsageError if the file is no Python file or raises an exception.
    """
    path = Path(file)
    spec = importlib.util.spec_from_file_location("sparkle_bench_reference", path)
    if path.suffix != ".py" or spec is None or spec.loader is None:
        raise UsageError(f"--ref {file}: expected a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a user's file may raise anything, even SystemExit
        raise UsageError(
            f"--ref {file}: running the file raised {type(error).__name__}: {error}"
        ) from error
    return module


class Reference:
    """Calls the user's function with inputs and values in order; floats are widened to float64.

    The function returns the expected outputs in order: one array, or a tuple of them. Raises
    UsageError if the function raises an exception, or if it does not return one result for each
    output.
    """

    def __init__(self, text: str, args: tuple[Arg, ...]) -> None:
        self.text, self.args = text, args
        self._function = load_reference(text)

    def __reduce__(self) -> tuple[type, tuple[str, tuple[Arg, ...]]]:
        # pickled as its text, because another process loads the function itself
        return Reference, (self.text, self.args)

    def __call__(self, values: Mapping[str, Any]) -> dict[str, Array]:
        operands = [a for a in self.args if isinstance(a, Operand)]
        outputs = [a.name for a in operands if a.access != "r"]
        unread = [a.name for a in operands if "r" not in a.access]
        given = [_widened(values[a.name]) for a in self.args if a.name not in unread]
        try:
            result = self._function(*given)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a user's function may raise anything, even SystemExit
            raise UsageError(
                f"--ref {self.text}: the function raised {type(error).__name__}: {error}"
            ) from error
        results = result if isinstance(result, tuple) else (result,)
        if len(results) != len(outputs):
            raise UsageError(
                f"--ref {self.text}: returned {len(results)} results for {len(outputs)} outputs"
            )
        return {name: np.asarray(value) for name, value in zip(outputs, results, strict=True)}


def _widened(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.astype(np.float64) if value.dtype.kind == "f" else value.copy()
    return value
