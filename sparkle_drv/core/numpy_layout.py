"""May C read numpy's arrays by their layout (native/hot/numpy/ndarray.h)? Found out once a process.

What numpy says of a few arrays is compared with the fields as C sees them; any difference, and no
array is ever looked at that way: calls are slower then, and otherwise the same.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sparkle_drv import _hot

ROW_MAJOR, OWNDATA, ALIGNED, WRITEABLE = 1, 4, 0x100, 0x400
_FIELDS_NBYTES = 72  # of PyArrayObject up to and with its flags, on 64-bit machines


@lru_cache(maxsize=1)
def known() -> bool:
    """True when C knows the arrays of this numpy; it reads them from then on."""
    if np.ndarray.__basicsize__ < _FIELDS_NBYTES:
        return False
    readonly = np.arange(6, dtype=np.int32).reshape(2, 3).copy()
    readonly.flags.writeable = False
    whole = np.zeros((6, 10), np.float32)
    probes = (
        np.arange(7.0), readonly, whole.T, whole[1:4, 2:], whole[::2, ::-3], np.zeros((2, 3, 4, 5)),
        np.frombuffer(bytearray(41), np.uint8)[1:].view(np.float64), np.array(2.5),
    )  # fmt: skip
    well = all(agrees(x) for x in probes)
    if well:
        _hot.know_arrays(np.ndarray, np.dtype(np.float32), np.dtype(np.float64))
    return well


def agrees(x: np.ndarray) -> bool:
    """Does C see of this array what numpy says of it?"""
    try:
        address, shape, strides, dtype, flags = _hot.array_fields(x)
    except ValueError:
        return False
    bits = ROW_MAJOR * x.flags.c_contiguous + OWNDATA * x.flags.owndata
    bits += ALIGNED * x.flags.aligned + WRITEABLE * x.flags.writeable
    mask = ROW_MAJOR | OWNDATA | ALIGNED | WRITEABLE
    said = (x.__array_interface__["data"][0], x.shape, x.strides, bits)
    return (address, shape, strides, flags & mask) == said and dtype is x.dtype
