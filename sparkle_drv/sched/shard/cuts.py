"""The axes along which a call can be divided among devices, and what each piece reads and writes.
All functions are pure.

A cut names an axis of the work. Each operand is cut along an axis of its own, or read whole. Pieces
write their own part of the result, or each makes a whole result and these are combined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkle_drv.ops.shapes.geometry import Geometry

Shape = tuple[int, ...]

COMBINED = {"sum": np.add, "max": np.maximum, "min": np.minimum}
"""For each reduction, the function that combines the results of two pieces."""


@dataclass(frozen=True)
class Cut:
    """One way to divide a call."""

    name: str
    """Name of the axis: "rows", "columns", "terms", "images", "channels", "elements"."""
    extent: int
    """Elements along the axis. A piece is [begin, end) of them."""
    operands: tuple[int | None, ...]
    """For each operand, the axis that is cut; None if each piece reads the whole operand."""
    out: int | None
    """The axis of the result that is cut; None if the results of the pieces are combined."""
    combine: str = ""
    """A key of COMBINED; "" if the result is cut."""

    def given(self, operands: Sequence[Any], begin: int, end: int) -> list[Any]:
        """Returns the operands of the piece [begin, end): views of those that are cut,
        and the others whole.
        """
        return [
            x if axis is None or x is None else x[(slice(None),) * axis + (slice(begin, end),)]
            for x, axis in zip(operands, self.operands, strict=True)
        ]

    def part(self, out: np.ndarray[Any, Any], begin: int, end: int) -> np.ndarray[Any, Any]:
        """Returns a view of the part of the result `out` that the piece [begin, end) writes."""
        if self.out is None:
            return out
        part: np.ndarray[Any, Any] = out[(slice(None),) * self.out + (slice(begin, end),)]
        return part

    def read_whole(self, operands: Sequence[Any]) -> int:
        """Returns the bytes of the operands that each device reads whole."""
        pairs = zip(operands, self.operands, strict=True)
        return sum(x.nbytes for x, axis in pairs if axis is None and x is not None)

    def read_cut(self, operands: Sequence[Any]) -> int:
        """Returns the bytes of the operands that are cut."""
        pairs = zip(operands, self.operands, strict=True)
        return sum(x.nbytes for x, axis in pairs if axis is not None and x is not None)


def gemm(a: Shape, b: Shape, biased: bool, activated: bool, reduce: str) -> list[Cut]:
    """Returns the cuts of a product of these shapes.

    With `reduce` "sum", only the summed axis K is cut, and partial products are added. A product
    with a bias or an activation then has no cut.
    """
    (m, k), n = a, b[1]
    if reduce == "sum":
        spoilt = biased or activated
        return [] if spoilt else [Cut("terms", k, (1, 0, None), None, "sum")]
    columns = Cut("columns", n, (None, 1, 0 if biased else None), 1)
    return [Cut("rows", m, (0, None, None), 0), columns]


def conv2d(shape: Geometry, layout: str) -> list[Cut]:
    """Returns the cuts of a convolution: its images, and its output channels if there are no
    groups.
    """
    found = [Cut("images", shape.n, (0, None, None), 0)]
    if shape.groups == 1 and layout in ("NCHW", "NHWC"):
        found.append(Cut("channels", shape.oc, (None, 0, 0), layout.index("C")))
    return found


def map(shapes: Mapping[str, Shape], out: Shape) -> list[Cut]:
    """Returns the cut of a map: along the first axis of its result with more than one element.
    Operands that are broadcast along this axis are read whole.
    """
    axis = next((at for at, extent in enumerate(out) if extent > 1), None)
    if axis is None:
        return []
    its = []
    for shape in shapes.values():
        own = axis - (len(out) - len(shape))
        its.append(own if own >= 0 and shape[own] == out[axis] else None)
    return [Cut("elements", out[axis], tuple(its), axis)]


def reduce(shape: Shape, op: str, axis: int | tuple[int, ...] | None, keepdims: bool) -> list[Cut]:
    """Returns the cuts of a reduction: along an axis that stays, else along a reduced axis.

    The partial results of a cut along a reduced axis are combined. A mean has no such cut, since
    the means of parts cannot be combined.
    """
    every = range(len(shape))
    given = every if axis is None else axis if isinstance(axis, tuple) else (axis,)
    gone = {at % len(shape) for at in given}
    for at in every:
        if at not in gone and shape[at] > 1:
            before = 0 if keepdims else sum(other < at for other in gone)
            return [Cut("elements", shape[at], (at,), at - before)]
    if op not in COMBINED or not gone:
        return []
    at = max(gone, key=lambda at: (shape[at], -at))
    return [Cut("terms", shape[at], (at,), None, op)]
