"""The space that a fused map runs through: few dimensions, and strides in bytes for each array.

Broadcasting is a stride of 0. Neighbouring dimensions over which every array steps on alike become
one, so that arrays of one shape that lie in one piece are a single row. Pure; the layout of the
result is that of struct sp_map_geometry (native/include/sp_map.h). Called by `fused.py`.
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
STREAM = 5  # where the geometry says so


class Space:
    """`shape` and, for each array, `strides` over it."""

    __slots__ = ("shape", "strides")

    def __init__(self, shape: Shape, strides: Sequence[Shape]) -> None:
        self.shape, self.strides = shape, tuple(strides)

    def ordered(self, order: Sequence[int]) -> Space:
        """The same with its dimensions in another order."""
        return Space(
            tuple(self.shape[d] for d in order),
            [tuple(s[d] for d in order) for s in self.strides],
        )

    def joined(self) -> Space:
        """The same in as few dimensions as possible, at least one."""
        kept: list[tuple[int, ...]] = []  # of each dimension its size, then its strides
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
        """struct sp_map_geometry: the first array is y, the others are x0 and so on."""
        ndim = len(self.shape)
        found = [ndim, FOLDS[fold], *cube, int(stream), *self.shape]
        for kind, offset, strides in zip(types, offsets, self.strides, strict=True):
            found += [_TYPES[kind], offset, *strides]
        found += [0] * ((INPUTS + 1 - len(types)) * (2 + ndim))
        return np.array(found, np.int64)


def common(shapes: Sequence[Shape]) -> Shape:
    """What shapes broadcast to, of any number of dimensions and however large; ValueError: they do
    not. (numpy's broadcast_shapes stops at 32 dimensions, half of what its arrays have.)
    """
    found: list[int] = []
    for sizes in itertools.zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1):
        wide = set(sizes) - {1} or {1}
        if len(wide) > 1:
            raise ValueError(f"{shapes} do not broadcast")
        found += wide
    return tuple(reversed(found))


def broadcast(x: Any, shape: Shape) -> Shape:
    """The strides in bytes of an array that is broadcast to `shape`; a core.Array is row-major."""
    given = x.strides if isinstance(x, np.ndarray) else row_major(x.shape, x.dtype.itemsize)
    own = tuple(0 if d == 1 else s for d, s in zip(x.shape, given, strict=True))
    return (0,) * (len(shape) - len(own)) + own


def row_major(shape: Shape, itemsize: int) -> Shape:
    """The strides of an array of `shape` in one piece."""
    found: list[int] = []
    step = itemsize
    for d in reversed(shape):
        found.append(step)
        step *= max(d, 1)
    return tuple(reversed(found))


def order_of(strides: Shape) -> list[int]:
    """Dimensions as they lie in memory, outermost first; those of stride 0 stay where they are."""
    plain = list(range(len(strides)))
    return sorted(plain, key=lambda d: (-abs(strides[d]), d)) if all(strides) else plain


def reach(shape: Shape, strides: Shape, itemsize: int) -> tuple[int, int]:
    """(bytes from the lowest element to the first, bytes from there to the end of the highest)."""
    if 0 in shape:
        return 0, 0
    ends = [(d - 1) * s for d, s in zip(shape, strides, strict=True)]
    below = -sum(min(0, end) for end in ends)
    return below, sum(map(abs, ends)) + itemsize
