"""Turns a strided copy into a kernel's arguments: few dimensions, elements as wide as possible.

operation.py calls this file after it has checked that both sides lie within their arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkle_drv.ops.shapes.space import Shape, Space, order_of
from sparkle_drv.ops.shapes.view import View

DIMS = 4
"""The number of dimensions of the kernels."""
_WIDTHS = 8, 4, 2, 1
_MOST_WORK: Any = 10_000  # Any: numpy's type stubs reject such a number
"""The limit of numpy's search for a shared byte, a few ms. Beyond it `share` returns True."""


@dataclass(frozen=True)
class StridedMove:
    """A copy of elements of `width` bytes. The strides of dst are positive, the largest first."""

    width: int
    shape: Shape
    strides: tuple[Shape, Shape]
    """The strides of dst and of src, in elements."""
    offsets: tuple[int, int]

    @property
    def needed(self) -> tuple[int, int]:
        """The numbers of elements that dst and src must have: their highest positions plus 1."""
        dst, src = (
            offset + sum((n - 1) * max(s, 0) for n, s in zip(self.shape, strides, strict=True)) + 1
            for offset, strides in zip(self.offsets, self.strides, strict=True)
        )
        return dst, src

    def padded(self) -> tuple[int, ...]:
        """Returns the kernel's arguments: DIMS sizes, DIMS strides of dst, DIMS strides of src.

        If the copy has fewer dimensions, leading dimensions of size 1 and stride 0 are added.
        """
        fill = DIMS - len(self.shape)
        strides = [number for side in self.strides for number in ((0,) * fill + side)]
        return (1,) * fill + self.shape + tuple(strides)


def move(
    dst: View, src: View, itemsize: int, addresses: Sequence[int], has: Callable[[int], bool]
) -> StridedMove | None:
    """Returns the StridedMove that copies the elements of src to dst; None if no kernel can do it.

    Both views have the same shape, without a 0 in it. `addresses` are the addresses of both arrays.
    `has(width)` says whether the device has a kernel for elements of `width` bytes.

    The elements may be copied in any order. So dimensions are reversed and sorted such that the
    strides of dst are positive, the largest first. Neighbouring dimensions are joined, and runs of
    small elements move as wide elements.
    """
    offsets = [dst.offset, src.offset]
    sides = [list(dst.strides), list(src.strides)]
    for d, n in enumerate(dst.shape):
        if sides[0][d] < 0:
            for side in (0, 1):
                offsets[side] += (n - 1) * sides[side][d]
                sides[side][d] *= -1
    # The strides become bytes, and the bytes of an element become one more dimension. Dimensions of
    # size 1 are dropped, because their strides have no meaning.
    shape = (*dst.shape, itemsize)
    steps = [(*(s * itemsize for s in side), 1) for side in sides]
    kept = [d for d, n in enumerate(shape) if n != 1]
    whole = Space(shape, steps).ordered(kept)
    whole = whole.ordered(order_of(whole.strides[0])).joined()
    starts = [offset * itemsize for offset in offsets]
    for width in _WIDTHS:
        if has(width):
            found = _widened(whole, starts, width, addresses)
            if found is not None:
                return found
    return None


def _widened(
    whole: Space, starts: Sequence[int], width: int, addresses: Sequence[int]
) -> StridedMove | None:
    """Returns the copy as a StridedMove of elements of `width` bytes.

    Returns None if elements of this width would not be aligned, or would not divide each run of
    contiguous bytes.
    """
    *outer, last = whole.shape
    dense = all(strides[-1] == 1 for strides in whole.strides)
    if width > 1 and not (dense and last % width == 0):
        return None
    far = [s for strides in whole.strides for s in strides[:-1]]
    if width > 1 and any(number % width for number in (*far, *starts, *addresses)):
        return None
    if width > 1:
        strides = [(*(s // width for s in steps[:-1]), 1) for steps in whole.strides]
        whole = Space((*outer, last // width), strides).joined()
    dst, src = whole.strides
    return StridedMove(width, whole.shape, (dst, src), (starts[0] // width, starts[1] // width))


def interleaves(view: View) -> bool:
    """Returns whether two indices may name one element.

    The result may be True for separate elements too, if those of one dimension lie between those of
    another. The result is False for every slice and transpose of a row-major array.
    """
    extent = 1
    for step, n in sorted((abs(s), n) for s, n in zip(view.strides, view.shape, strict=True)):
        if n > 1 and step < extent:
            return True
        extent += step * (n - 1)
    return False


def share(move: StridedMove, apart: int) -> bool:
    """Returns whether the memory that a copy reads and the memory that it writes share a byte.

    `apart` is the distance in bytes from the array of dst to that of src.
    """
    base = abs(apart) + 1  # large enough that the addresses of both arrays are positive
    dst = _ghost(move, 0, base)
    src = _ghost(move, 1, base + apart)
    try:
        return bool(np.shares_memory(dst, src, max_work=_MOST_WORK))
    except RuntimeError:  # numpy's TooHardError: _MOST_WORK did not suffice
        return True


def _ghost(move: StridedMove, side: int, base: int) -> npt.NDArray[Any]:
    """Returns dst (side 0) or src (side 1) of a copy as a numpy array at an invented address.

    Nothing reads the elements of that array.
    """
    interface = {
        "version": 3,
        "typestr": f"|V{move.width}",
        "shape": move.shape,
        "strides": tuple(s * move.width for s in move.strides[side]),
        "data": (base + move.offsets[side] * move.width, False),
    }
    return np.asarray(SimpleNamespace(__array_interface__=interface))
