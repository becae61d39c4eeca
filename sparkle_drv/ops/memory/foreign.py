"""Arrays of other libraries as operands: any DLPack exporter (torch, JAX, CuPy), without a copy.

An array in host memory becomes a numpy array over the same memory. An array in the device's memory
becomes an Array over the same memory. Any other memory raises TypeError. staging.py and the calls
of a Context call this for objects that are neither numpy arrays nor arrays of this package.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkle_drv.core.array import Array, bfloat16, host_array
from sparkle_drv.core.device import Device
from sparkle_drv.core.interop import HOST_KINDS, adopt
from sparkle_drv.ops.arguments.quoting import short

_NAMES = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 14: "oneapi"}


def is_foreign(given: Any) -> bool:
    """Returns whether `given` exports by DLPack and is neither a numpy array nor an Array."""
    return not isinstance(given, (np.ndarray, Array)) and hasattr(given, "__dlpack__")


def place_of(name: str, array: Any) -> tuple[int, int]:
    """Returns DLPack's (type, number) of the device that has the memory of `array`.

    Raises TypeError if `array` does not name a device.
    """
    try:
        kind, number = array.__dlpack_device__()
        return int(kind), int(number)
    except Exception as error:  # the exporter's code may raise any exception
        raise TypeError(
            f"{short(name)}: expected a DLPack device from __dlpack_device__(), "
            f"got the error {error!r}"
        ) from None


def operand(name: str, array: Any, dev: Device | None = None) -> np.ndarray[Any, Any] | Array:
    """Returns a numpy array over host memory, or an Array over memory of `dev`.

    Later work on `dev` waits for the work that the other library has in flight there. Raises
    TypeError (memory of another device, elements without a numpy dtype, a failed export) and
    ValueError (memory of `dev` that is not C-contiguous).
    """
    place = place_of(name, array)
    if place[0] in HOST_KINDS:
        return host_array(short(name), array)
    shares = None if dev is None else dev._abilities.shares_streams
    if dev is None or shares is None or place != shares.dlpack:
        where = f"{_NAMES.get(place[0], f'DLPack device {place[0]}')}:{place[1]}"
        here = f"the host or of {dev.uri}" if dev is not None and shares else "the host"
        raise TypeError(
            f"{short(name)}: expected an array in memory of {here}, got one in memory of {where}; "
            "copy it first"
        )
    try:
        adopted = adopt(dev, array)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{short(name)}: cannot use this array: {error}") from error
    # `place_of` has asked `array` for its DLPack device, and `adopt` has asked again.
    if adopted is None:  # `array` has named another device to `adopt`
        raise TypeError(
            f"{short(name)}: expected the same DLPack device from each call, got another one"
        )
    buffer, memory = adopted
    return buffer.array(_dtype(name, memory.dtype), memory.shape)


def _dtype(name: str, code: str) -> np.dtype[Any]:
    """Returns numpy's dtype for `code`: a letter for the kind of number and its bytes, as "f4".

    "bf2" is bfloat16. Raises TypeError, with the operand's `name`, if numpy has no such dtype.
    """
    if code == "bf2":
        return bfloat16(short(name))
    try:
        dtype: np.dtype[Any] = np.dtype(code)
        return dtype
    except TypeError:
        raise TypeError(f"{short(name)}: numpy has no dtype for its elements") from None
