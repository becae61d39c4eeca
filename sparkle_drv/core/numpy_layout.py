"""Decides once per process whether C may read numpy's array struct (native/hot/numpy/ndarray.h).

numpy reports the version of its binary interface, which determines the layout of the struct. If C
does not know the version, it does not read the struct. Calls are then slower, with the same
results.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from sparkle_drv import _hot


@cache
def known() -> bool:
    """Returns whether C knows the array layout of this numpy, and so reads arrays directly."""
    inside = getattr(np, "_core", None) or np.core  # numpy 1 names it `core`
    table = getattr(getattr(inside, "_multiarray_umath", None), "_ARRAY_API", None)
    return table is not None and _hot.know_numpy(table)
