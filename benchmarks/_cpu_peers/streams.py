"""Calls that only move memory: a copy and a saxpy. They are timed in turns with a map, so that the
map is compared with the copy rate of the same moments.

A roof is the best rate of a separate measurement. On a machine with other users, the map's rate
must be compared with copies that had the same disturbance.
"""

from __future__ import annotations

from typing import Any

from .base import Operands, Way
from .cases import SCALAR, Map

_STATEMENTS = {
    "copy": "map(dev, 'x', x=x, out=y)",
    "saxpy": "map(dev, 'a*x + y', x=x, y=y, a=a, out=y)",
}
ARRAYS = {"copy": 2, "saxpy": 3}
"""The number of arrays that each stream moves through memory. A saxpy fetches y by reading it; a
plain copy stores past the caches."""
CASE = "map four 10M"
"""The map that is compared with the copy. The saxpy is reported as well."""
_CLOSE = 1e-6


def nbytes(of: Map, name: str) -> float:
    """Returns the number of bytes that one call of the stream `name` moves through memory."""
    return 4.0 * of.n * ARRAYS[name]


def way(name: str, operands: Operands, dev: Any, ops: Any) -> Way:
    """Returns what measure.py needs to time the stream `name` ("copy" or "saxpy"). The `result()`
    of the returned `Way` checks the values and returns None.
    """
    x, before = operands["x"], operands["y"]
    y = before.copy()
    names = {"map": ops.map, "dev": dev, "y": y, "x": x, "a": SCALAR}

    def result() -> None:
        wanted = x if name == "copy" else SCALAR * x.astype("f8") + before
        worst = float(abs(y - wanted).max())
        if not worst <= _CLOSE:  # `not ... <=` is also true for a NaN
            raise ValueError(f"{name}: expected an error of at most {_CLOSE:g}, got {worst:.3g}")

    def poison() -> None:
        y[:] = before

    return Way(_STATEMENTS[name], names, result, poison=poison)
