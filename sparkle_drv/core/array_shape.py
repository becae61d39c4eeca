"""What every array of ours says of its shape."""

from __future__ import annotations

import math
import operator


class Shaped:
    """Of `shape`, a tuple: core.Array and the arrays of a Context are so."""

    __slots__ = ()
    shape: tuple[int, ...]

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a 0-d array has no length")
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements there are."""
        return math.prod(self.shape)

    def _number(self, at: tuple[object, ...]) -> int:
        """How many elements are before that at this index; those below 0 count from the end.

        Raises TypeError, IndexError.
        """
        found, shape = 0, self.shape
        for i, extent in zip(at, shape, strict=False):
            if isinstance(i, bool) or not hasattr(i, "__index__"):
                raise TypeError(f"get: expected whole numbers, got {i!r}")
            number = operator.index(i)
            if not -extent <= number < extent:
                raise IndexError(f"get: expected {-extent} to {extent - 1}, got {number}")
            found = found * extent + number % extent
        if len(at) != len(shape):
            raise IndexError(f"get: expected {len(shape)} indices, one a dimension, got {len(at)}")
        return found
