"""Arrays of other libraries among the arguments of a call of a Context (ops/memory/foreign.py).

An array in host memory is placed as numpy's are. An array in the memory of a device of the Context
binds the call to that device, as a core.Array does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sparkle_drv.core.device import Device
from sparkle_drv.ops.memory.foreign import is_foreign, operand, place_of

Devices = Mapping[str, Device]
"""The devices of a Context, by URI."""


class Foreign(Exception):
    """Raised when an argument is an array of another library. The call then begins again, with the
    argument replaced by what the function `taken` makes of it.
    """


def taken(devices: Devices, name: str, array: Any) -> Any:
    """Returns an operand over the memory of `array`, if it is an array of another library. Returns
    any other `array` unchanged. Raises as `operand` of ops/memory/foreign.py does.
    """
    if not is_foreign(array):
        return array
    place = place_of(name, array)
    for device in devices.values():
        shares = device._abilities.shares_streams
        if shares is not None and shares.dlpack == place:
            return operand(name, array, device)
    return operand(name, array)


def all_taken(devices: Devices, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """Returns the arguments by position and the arguments by name, each as `taken` returns it."""
    there = []
    for i, x in enumerate(args):
        there.append(taken(devices, f"operand {i + 1}", x))
    return tuple(there), {name: taken(devices, name, x) for name, x in named.items()}


def call(
    devices: Devices, again: Callable[..., Any], args: tuple[Any, ...],
    named: Mapping[str, Any], out: Any,
) -> Any:  # fmt: skip
    """Calls `again(given, named, out)`. Each array of another library is replaced by what `taken`
    returns for it. Returns the caller's own `out` if it is host memory.
    """
    there = taken(devices, "out", out)
    made = again(*all_taken(devices, args, named), there)
    return out if isinstance(there, np.ndarray) else made
