"""The axes along which a call can be divided among devices, and what each piece reads and writes.
All functions are pure.

A cut names an axis of the work. Each operand is cut along an axis of its own, or read whole. Pieces
write their own part of the result, or each makes a whole result and these are combined.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

COMBINED = {"sum": np.add, "max": np.maximum, "min": np.minimum}
"""For each reduction, the function that combines the results of two pieces."""


@dataclass(frozen=True)
class Cut:
    """One way to divide a call."""

    name: str
    """Name of the axis: "rows", "columns", "terms", "images", "channels", "elements"."""
    extent: int
    """Elements along the axis. A piece is [begin, end) of them."""
    operands: Mapping[str, int | None]
    """For each operand by name, the axis that is cut; None if each piece reads it whole."""
    out: int | None
    """The axis of the result that is cut; None if the results of the pieces are combined."""
    combine: str = ""
    """A key of COMBINED; "" if the result is cut."""

    def given(self, operands: Mapping[str, Any], begin: int, end: int) -> dict[str, Any]:
        """Returns the operands of the piece [begin, end): views of those that are cut, and the
        others whole.
        """
        return {
            name: x if axis is None else x[(slice(None),) * axis + (slice(begin, end),)]
            for name, x in operands.items()
            for axis in (self.operands[name],)
        }

    def part(self, out: np.ndarray[Any, Any], begin: int, end: int) -> np.ndarray[Any, Any]:
        """Returns a view of the part of the result `out` that the piece [begin, end) writes."""
        if self.out is None:
            return out
        part: np.ndarray[Any, Any] = out[(slice(None),) * self.out + (slice(begin, end),)]
        return part

    def read_whole(self, operands: Mapping[str, Any]) -> int:
        """Returns the bytes of the operands that each device reads whole."""
        return sum(x.nbytes for name, x in operands.items() if self.operands[name] is None)

    def read_cut(self, operands: Mapping[str, Any]) -> int:
        """Returns the bytes of the operands that are cut."""
        return sum(x.nbytes for name, x in operands.items() if self.operands[name] is not None)
