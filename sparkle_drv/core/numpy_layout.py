"""May C read numpy's arrays by their layout (native/hot/numpy/ndarray.h)? Found out once a process.

numpy says which version of its binary interface it has. The layout is part of that; of a version
that C does not know no array is ever looked at: calls are slower then, and otherwise the same.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from sparkle_drv import _hot


@cache
def known() -> bool:
    """True when C knows the arrays of this numpy; it reads them from then on."""
    inside = getattr(np, "_core", None) or np.core  # the latter before numpy 2
    table = getattr(getattr(inside, "_multiarray_umath", None), "_ARRAY_API", None)
    return table is not None and _hot.know_numpy(table)
