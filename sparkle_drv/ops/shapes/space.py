"""The space that a fused map runs through: few dimensions, and strides in bytes for each array.

Broadcasting is a stride of 0. Neighbouring dimensions over which every array steps on alike become
one, so that arrays of one shape that lie in one piece are a single row. Pure; the layout of the
result is that of struct sp_map_geometry (native/include/sp_map.h). Called by `fused.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Shape = tuple[int, ...]
INPUTS = 8
DIMS = 8
_TYPES = {"f32": 0, "f64": 1, "i32": 2, "i64": 3}
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
        kept: list[int] = []  # sizes
        steps: list[list[int]] = [[] for _ in self.strides]
        for d, size in enumerate(self.shape):
            if size == 1:
                continue
            here = [s[d] for s in self.strides]
            if kept and all(s[-1] == h * size for s, h in zip(steps, here, strict=True)):
                kept[-1] *= size
                for s, h in zip(steps, here, strict=True):
                    s[-1] = h
            else:
                kept.append(size)
                for s, h in zip(steps, here, strict=True):
                    s.append(h)
        if not kept:
            return Space((1,), [(0,)] * len(self.strides))
        return Space(tuple(kept), [tuple(s) for s in steps])

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
    ndim = max((len(shape) for shape in shapes), default=0)
    found = [1] * ndim
    for shape in shapes:
        for d, n in enumerate(shape, ndim - len(shape)):
            if n != 1 and found[d] not in (1, n):
                raise ValueError(f"{shapes} do not broadcast")
            found[d] = found[d] if n == 1 else n
    return tuple(found)


def broadcast(x: Any, shape: Shape) -> Shape:
    """The strides in bytes of an array that is broadcast to `shape`."""
    missing = len(shape) - len(x.shape)
    own = (0 if d == 1 else s for d, s in zip(x.shape, strides_of(x), strict=True))
    return (0,) * missing + tuple(own)


def strides_of(x: Any) -> Shape:
    """In bytes; a core.Array is row-major."""
    if isinstance(x, np.ndarray):
        return x.strides
    return row_major(x.shape, x.dtype.itemsize)


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
    below = -sum(min(0, (d - 1) * s) for d, s in zip(shape, strides, strict=True))
    above = sum(max(0, (d - 1) * s) for d, s in zip(shape, strides, strict=True))
    return below, below + above + itemsize
