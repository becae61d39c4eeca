"""Shaped: len, ndim and size of every array class of this package."""

from __future__ import annotations

import math
import operator


class Shaped:
    """Members that follow from `shape`, a tuple.

    core.Array and the arrays of a Context have them.
    """

    __slots__ = ()
    shape: tuple[int, ...]

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a 0-d array has no length")
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def _number(self, at: tuple[object, ...]) -> int:
        """Returns the row-major number of the element at index `at`.

        A negative index counts from the end. Raises TypeError for an index that is no int, and
        IndexError for an index outside the array or a wrong number of indices.
        """
        position, shape = 0, self.shape
        for i, extent in zip(at, shape, strict=False):
            if isinstance(i, bool) or not hasattr(i, "__index__"):
                raise TypeError(f"get: expected whole numbers, got {i!r}")
            number = operator.index(i)
            if not -extent <= number < extent:
                raise IndexError(
                    f"get: expected an index from {-extent} to {extent - 1}, got {number}"
                )
            position = position * extent + number % extent
        if len(at) != len(shape):
            raise IndexError(f"get: expected {len(shape)} indices, one per axis, got {len(at)}")
        return position
