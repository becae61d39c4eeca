"""What a strided copy comes to for a kernel: few dimensions, elements as wide as possible.

Pure. Called by operation.py, which has checked that both sides lie within their arrays.
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
"""Dimensions of the kernels."""
_WIDTHS = 8, 4, 2, 1
_MOST_WORK: Any = 10_000  # numpy's stubs know its two symbolic values alone
"""Steps of numpy's search for a shared byte: some milliseconds. Beyond them the answer is yes."""


@dataclass(frozen=True)
class Move:
    """A copy of elements of `width` bytes, dst's strides positive and falling."""

    width: int
    shape: Shape
    strides: tuple[Shape, Shape]
    """Of dst and of src, in elements."""
    offsets: tuple[int, int]

    @property
    def needed(self) -> tuple[int, int]:
        """How many elements each side must have: one more than the highest position."""
        dst, src = (
            offset + sum((n - 1) * max(s, 0) for n, s in zip(self.shape, strides, strict=True)) + 1
            for offset, strides in zip(self.offsets, self.strides, strict=True)
        )
        return dst, src

    def padded(self) -> tuple[int, ...]:
        """The kernels' n0 to n3, strides of dst and strides of src."""
        fill = DIMS - len(self.shape)
        strides = [number for side in self.strides for number in ((0,) * fill + side)]
        return (1,) * fill + self.shape + tuple(strides)


def move(
    dst: View, src: View, itemsize: int, addresses: Sequence[int], has: Callable[[int], bool]
) -> Move | None:
    """The copy of src's elements to dst's, both of one shape without a 0 in it.

    `addresses` are those of both arrays; `has(width)`: is there a kernel for elements of `width`
    bytes? None: no kernel of the device can copy these elements. The order of elements is free, so
    dimensions are reversed and ordered for dst, neighbours are joined, and runs of small elements
    move as wide ones.
    """
    offsets = [dst.offset, src.offset]
    sides = [list(dst.strides), list(src.strides)]
    for d, n in enumerate(dst.shape):
        if sides[0][d] < 0:
            for side in (0, 1):
                offsets[side] += (n - 1) * sides[side][d]
                sides[side][d] *= -1
    # In bytes, with the bytes of an element as one more dimension.
    shape = (*dst.shape, itemsize)
    steps = [(*(s * itemsize for s in side), 1) for side in sides]
    kept = [d for d, n in enumerate(shape) if n != 1]  # the stride of one element means nothing
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
) -> Move | None:
    """The same by elements of `width` bytes; None where they are not whole or not aligned."""
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
    return Move(width, whole.shape, (dst, src), (starts[0] // width, starts[1] // width))


def interleaves(view: View) -> bool:
    """May two indices of the view be one element, or do its dimensions not lie within one another?

    Slices and transposes of an array's elements never do.
    """
    extent = 1
    for step, n in sorted((abs(s), n) for s, n in zip(view.strides, view.shape, strict=True)):
        if n > 1 and step < extent:
            return True
        extent += step * (n - 1)
    return False


def share(move: Move, apart: int) -> bool:
    """Have both sides a byte in common? `apart`: bytes from dst's array to src's."""
    base = abs(apart) + 1  # ghosts lie at positive addresses
    dst = _ghost(move, 0, base)
    src = _ghost(move, 1, base + apart)
    try:
        return bool(np.shares_memory(dst, src, max_work=_MOST_WORK))
    except RuntimeError:  # numpy's TooHardError
        return True


def _ghost(move: Move, side: int, base: int) -> npt.NDArray[Any]:
    """One side as an array of numpy's at an address of our choice. Nobody reads its elements."""
    said = {
        "version": 3,
        "typestr": f"|V{move.width}",
        "shape": move.shape,
        "strides": tuple(s * move.width for s in move.strides[side]),
        "data": (base + move.offsets[side] * move.width, False),
    }
    return np.asarray(SimpleNamespace(__array_interface__=said))
