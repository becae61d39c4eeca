"""May C read numpy's arrays by their layout (native/hot/numpy/ndarray.h)? Decided once per process.

numpy tells the version of its binary interface, which includes the layout. If C does not know the
version, it reads no array directly: calls are then slower, with the same results.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from sparkle_drv import _hot


@cache
def known() -> bool:
    """True if C knows the array layout of this numpy; C then reads arrays directly."""
    inside = getattr(np, "_core", None) or np.core  # numpy 1 has `core`
    table = getattr(getattr(inside, "_multiarray_umath", None), "_ARRAY_API", None)
    return table is not None and _hot.know_numpy(table)
