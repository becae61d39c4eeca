"""The loops of a fused map: few dimensions, and strides in bytes for each array.

A dimension in which an array is broadcast has the stride 0. Two neighbouring dimensions are merged
if the strides of every array allow it. So contiguous arrays of one shape become a single row. The
result has the layout of struct sp_map_geometry (native/include/sp_map.h). map/fused.py calls this.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Shape = tuple[int, ...]
INPUTS = 8
DIMS = 8
_TYPES = {"f32": 0, "f64": 1, "i32": 2, "i64": 3, "u8": 4, "bool": 5, "f16": 6, "bf16": 7}
FOLDS = {"": 0, "sum": 1, "max": 2, "min": 3, "mean": 4}
STREAM = 5  # index of the field `stream` in struct sp_map_geometry


class Space:
    """The `shape` of nested loops and, for each array, `strides` in bytes."""

    __slots__ = ("shape", "strides")

    def __init__(self, shape: Shape, strides: Sequence[Shape]) -> None:
        self.shape, self.strides = shape, tuple(strides)

    def ordered(self, order: Sequence[int]) -> Space:
        """Returns a Space whose dimension i is dimension `order[i]` of this Space."""
        return Space(
            tuple(self.shape[d] for d in order),
            [tuple(s[d] for d in order) for s in self.strides],
        )

    def joined(self) -> Space:
        """Returns a Space with neighbouring dimensions merged if possible; at least one remains."""
        kept: list[tuple[int, ...]] = []  # (size, strides...) of each dimension
        for size, *steps in zip(self.shape, *self.strides, strict=True):
            if size == 1:
                continue
            n = size
            if kept and all(far == s * size for far, s in zip(kept[-1][1:], steps, strict=True)):
                n *= kept.pop()[0]
            kept.append((n, *steps))
        shape, *strides = zip(*kept, strict=True) if kept else ((1,), *((0,) for _ in self.strides))
        return Space(shape, strides)

    def geometry(
        self, types: Sequence[str], offsets: Sequence[int], *, fold: str = "",
        cube: tuple[int, int, int] = (0, 0, 0), stream: bool = False,
    ) -> npt.NDArray[np.int64]:  # fmt: skip
        """Returns the struct sp_map_geometry. The first array is y, the others are x0, x1, ...

        `types` and `offsets` (in bytes) have an entry for each array. `fold`, a key of FOLDS, is a
        reduction. `cube` is the shape (outer, n, inner) of the reduction's input: its middle axis
        of n values is reduced. `stream` says that y is larger than the caches.
        """
        ndim = len(self.shape)
        words = [ndim, FOLDS[fold], *cube, int(stream), *self.shape]
        for kind, offset, strides in zip(types, offsets, self.strides, strict=True):
            words += [_TYPES[kind], offset, *strides]
        words += [0] * ((INPUTS + 1 - len(types)) * (2 + ndim))
        return np.array(words, np.int64)


def common(shapes: Sequence[Shape]) -> Shape:
    """Returns the shape to which `shapes` broadcast, with any number of dimensions and any size.

    numpy's broadcast_shapes takes at most 32 dimensions. numpy's arrays may have twice as many.
    Raises ValueError if `shapes` do not broadcast.
    """
    extents: list[int] = []
    for sizes in itertools.zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1):
        wide = set(sizes) - {1} or {1}
        if len(wide) > 1:
            raise ValueError(f"{shapes} do not broadcast")
        extents += wide
    return tuple(reversed(extents))


def broadcast(x: Any, shape: Shape) -> Shape:
    """Returns the strides in bytes of `x`, an array or a core.Array, broadcast to `shape`."""
    given = x.strides if isinstance(x, np.ndarray) else row_major(x.shape, x.dtype.itemsize)
    own = tuple(0 if d == 1 else s for d, s in zip(x.shape, given, strict=True))
    return (0,) * (len(shape) - len(own)) + own


def row_major(shape: Shape, itemsize: int) -> Shape:
    """Returns the strides of a row-major array of `shape` without gaps."""
    strides: list[int] = []
    step = itemsize
    for d in reversed(shape):
        strides.append(step)
        step *= max(d, 1)
    return tuple(reversed(strides))


def order_of(strides: Shape) -> list[int]:
    """Returns the dimensions in memory order, outermost first; 0, 1, 2, ... if a stride is 0."""
    plain = list(range(len(strides)))
    return sorted(plain, key=lambda d: (-abs(strides[d]), d)) if all(strides) else plain


def reach(shape: Shape, strides: Shape, itemsize: int) -> tuple[int, int]:
    """Returns the extent of an array in memory, as two numbers of bytes.

    Both numbers count from the element with the lowest address. The first is the distance to
    element [0, 0, ...]. The second is the distance to the end of the element with the highest
    address.
    """
    if 0 in shape:
        return 0, 0
    ends = [(d - 1) * s for d, s in zip(shape, strides, strict=True)]
    below = -sum(min(0, end) for end in ends)
    return below, sum(map(abs, ends)) + itemsize
