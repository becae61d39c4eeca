"""Memory of former results, used again for new results.

If the memory of a large array goes back to the system, the system zeroes and maps the next array
page by page. That can take longer than the computation. So numpy results of LEAST bytes or more use
blocks that are kept when the array and all views of it are gone (native/hot/numpy/blocks.c).
`limit` sets how many bytes are kept, `release` frees them. Smaller results use plain `numpy.empty`.

A memory handler of numpy (NEP 49, native/hot/numpy/result.c) allocates the blocks. With a handler a
result is a normal array whose `base` is None. Its block can be used again exactly when numpy frees
it. Results that are views of blocks would be worse. A view does not own its data, so it cannot be
resized. And counting references to a block is unreliable with threads and other interpreters.

If C does not know this numpy, or the program has its own memory handler, results use numpy's normal
memory. staging.py and the call table call this.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkle_drv import _hot
from sparkle_drv.backends import machine
from sparkle_drv.core import numpy_layout, settings
from sparkle_drv.ops.arguments import check

LEAST = 128 << 10
"""Bytes of the smallest result that uses blocks: HOT_RECYCLED_FROM of native/hot."""
_MOST = 1 << 30
_SHARE = 16


def limit(nbytes: int | None = None) -> int:
    """Returns the most bytes of memory of former results that the whole process keeps.

    nbytes sets the limit: 0 keeps nothing, and memory beyond the limit is freed at once. None only
    returns the limit. The first limit is SPARKLE_RECYCLE_MIB, which is read once per process: here,
    or at the latest by the first large result. Without that variable the first limit is a sixteenth
    of the memory that this process may use, 1 GiB at most.

    Raises TypeError if nbytes is not a whole number, ValueError if it is out of range.

    >>> before = recycled.limit()
    >>> recycled.limit(64 << 20)
    67108864
    >>> recycled.limit(before) == before
    True
    """
    begin()
    if nbytes is not None:
        _hot.limit_blocks(check.whole("nbytes", nbytes, 0, (1 << 63) - 1), False)
    return _hot.blocks()[1]


def release() -> None:
    """Returns the kept memory of former results to the system.

    >>> recycled.release()
    >>> recycled.kept()
    0
    """
    _hot.release_blocks()


def kept() -> int:
    """Returns the bytes of former results that are kept now.

    >>> x = np.ones(1 << 20, np.float32)
    >>> y = sp.ops.map(dev, "2 * x", x=x)
    >>> del y
    >>> recycled.kept() >= 0
    True
    """
    return _hot.blocks()[0]


def empty(shape: Sequence[int], dtype: npt.DTypeLike, nbytes: int) -> npt.NDArray[Any]:
    """Returns a new, uninitialised array of `shape` and `dtype`, which has `nbytes` bytes.

    Raises MemoryError if the system has too little memory for it.

    >>> recycled.empty((2, 3), np.float32, nbytes=24).shape
    (2, 3)
    """
    if nbytes < LEAST:
        return np.empty(shape, dtype)
    begin()
    made: npt.NDArray[Any] = _hot.result(np.empty, shape, dtype, nbytes)
    return made


@lru_cache(maxsize=1)
def begin() -> bool:
    """Limits the bytes of freed memory blocks that C keeps for new large results; once per process.

    Returns whether C knows the array layout of this numpy. If several threads call this function at
    once, the limit of the first one stays.

    >>> recycled.begin() == recycled.begin()
    True
    """
    asked = settings.read().recycle_mib
    own = min(_MOST, machine.memory_nbytes() // _SHARE) if asked is None else asked << 20
    _hot.limit_blocks(own, True)
    return numpy_layout.known()
