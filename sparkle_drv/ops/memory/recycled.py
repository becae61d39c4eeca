"""Memory of former results, used again for the next ones.

A large array whose memory goes back to the system costs more than it seems: the next one is zeroed
and mapped anew, page by page, which can take longer than what is computed. So numpy arrays that
operations make, from LEAST bytes on, are of blocks that are kept when the array and
everything that shares its memory are gone (native/hot/numpy/blocks.c). `limit` says how much is
kept, `release` lets it go. Smaller ones are plain `numpy.empty`.

numpy is told where that data comes from (NEP 49, native/hot/numpy/result.c). The other way would be
views of blocks, which are free when nobody but us holds them. But a view does not own its data, so
that it cannot be resized, and to count references is a guess that threads and other interpreters
make wrong. As it is, a result is an array as any other, `base` is None, and the block comes back
when numpy frees it, not earlier.

Where numpy is none that is known here, or the program has set a memory handler of its own, results
come from where other arrays do. Called by staging.py and the short ways.
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
"""Bytes of the smallest result that is made this way: HOT_RECYCLED_FROM of native/hot."""
_MOST = 1 << 30
_SHARE = 16


def limit(nbytes: int | None = None) -> int:
    """How many bytes of memory of former results are kept at most, by the whole process.

    nbytes: from now on so many, 0 for none; what is beyond goes at once. None only tells. At first
    it is SPARKLE_RECYCLE_MIB, which is read once a process, here or by an operation that may need
    it, by the first large result at the latest; else a sixteenth of the memory that this process
    may use, 1 GiB at most. Raises TypeError, ValueError.
    """
    begin()
    if nbytes is not None:
        _hot.limit_blocks(check.whole("nbytes", nbytes, 0, (1 << 63) - 1), False)
    return _hot.blocks()[1]


def release() -> None:
    """Give the memory of former results that is kept back to the system."""
    _hot.release_blocks()


def kept() -> int:
    """Bytes of former results that are kept now."""
    return _hot.blocks()[0]


def empty(shape: Sequence[int], dtype: Any, nbytes: int) -> npt.NDArray[Any]:
    """A new array of these bytes, of anything; MemoryError as numpy's."""
    if nbytes < LEAST:
        return np.empty(shape, dtype)
    begin()
    made: npt.NDArray[Any] = _hot.result(np.empty, shape, dtype, nbytes)
    return made


@lru_cache(maxsize=1)
def begin() -> bool:
    """From now on large results that C makes are of blocks, too. Does C know numpy's handlers of
    memory? Found out once a process, and a first limit is set: of threads that come at once, the
    first one's.
    """
    asked = settings.read().recycle_mib
    own = min(_MOST, machine.memory_nbytes() // _SHARE) if asked is None else asked << 20
    _hot.limit_blocks(own, True)
    return numpy_layout.known()
