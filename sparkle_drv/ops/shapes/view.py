"""View: selects elements of an array by a shape, strides and an offset, in elements.

A View describes slices, reversals, transposes and single indices of a row-major array, as numpy's
basic indexing does. It has no device, array or copy. `ops.strided_copy` takes the numbers of a
View.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.arguments.quoting import shown

from .space import row_major

Shape = tuple[int, ...]


class View(NamedTuple):
    """A view: element (i0, i1, ..) is at offset + i0 * strides[0] + i1 * strides[1] + ..."""

    shape: Shape
    strides: Shape
    """Strides in elements; they may be negative."""
    offset: int = 0
    """Position of the first element, in elements from the start of the array."""

    @classmethod
    def of(cls, shape: Sequence[int]) -> View:
        """Returns the view of all elements of a row-major array of this shape."""
        return cls(tuple(shape), row_major(tuple(shape), 1))

    def at(self, key: Any) -> View:
        """Returns the view of numpy's `x[key]`.

        `key` is an int, slice, `...`, None, or a tuple of these.

        Raises TypeError (masks, lists and arrays need a gather), IndexError (out of range, too many
        indices) and ValueError (a slice with step 0).
        """
        keys = key if isinstance(key, tuple) else (key,)
        named = sum(k is not None and k is not Ellipsis for k in keys)
        dots = sum(k is Ellipsis for k in keys)
        if named > len(self.shape):
            raise IndexError(f"key: expected at most {len(self.shape)} indices, got {named}")
        if dots > 1:
            raise IndexError("key: expected one ellipsis (...) at most, got several")
        rest = (slice(None),) * (len(self.shape) - named)
        keys = keys if dots else (*keys, Ellipsis)
        at = next(i for i, k in enumerate(keys) if k is Ellipsis)
        shape: list[int] = []
        strides: list[int] = []
        offset, axis = self.offset, 0
        for k in (*keys[:at], *rest, *keys[at + 1 :]):
            if k is None:
                shape.append(1)
                strides.append(0)
                continue
            size, stride = self.shape[axis], self.strides[axis]
            if isinstance(k, slice):
                start, stop, step = k.indices(size)
                count = len(range(start, stop, step))
                shape.append(count)
                strides.append(stride * step)
                offset += start * stride if count else 0
            else:
                offset += _place(k, axis, size) * stride
            axis += 1
        return View(tuple(shape), tuple(strides), offset)

    def turned(self, axes: Sequence[int] | None = None) -> View:
        """Returns the transpose, whose dimension i is dimension `axes[i]` of this view.

        None reverses all dimensions (`.T`). -1 is the last dimension. Raises TypeError or
        ValueError unless `axes` is a permutation.
        """
        n = len(self.shape)
        if axes is None:
            order = list(range(n))[::-1]
        else:
            order = [_axis(axis, n) for axis in axes]
            if sorted(order) != list(range(n)):
                raise ValueError(f"axes: expected each of 0 to {n - 1} once, got {shown(axes)}")
        return View(
            tuple(self.shape[d] for d in order), tuple(self.strides[d] for d in order), self.offset
        )


def _axis(axis: Any, n: int) -> int:
    index = check.index(axis)
    if index is None:
        raise TypeError(f"axes: expected whole numbers, got {shown(axis)}")
    return index + n if index < 0 else index


def _place(index: Any, axis: int, size: int) -> int:
    """Returns `index` of an axis, counted from the axis' first element."""
    number = check.index(index) if hasattr(index, "__index__") else None
    if number is None:
        raise TypeError(f"key: expected whole numbers, slices, ... and None, got {shown(index)}")
    if not -size <= number < size:
        raise IndexError(f"key: axis {axis} has {size} elements, got index {shown(number)}")
    return operator.index(number) % size
