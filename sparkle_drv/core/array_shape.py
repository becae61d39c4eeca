"""What every array of ours says of its shape."""

from __future__ import annotations

import math


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
