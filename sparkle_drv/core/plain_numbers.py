"""The numbers that a caller gives, as plain ints and floats: each is converted once.

An object may stand for a number by `__index__` or `__float__`, which are the caller's code: they
may have effects, raise, or be ended by Ctrl-C. So they run once, before anything else looks at the
argument, and what they raise propagates unchanged. If Python or numpy refuses the object, the
error names the argument. Called by queue.py, commands.py and fence.py.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Callable
from itertools import islice
from typing import Any

from sparkle_drv.core.kernel import Kernel
from sparkle_drv.core.launch_errors import refuse, told

_OURS = __name__.partition(".")[0]
_FLOATS = ("f32", "f64")


def launch(
    device: Any, kernel: Any, args: Any, groups: Any, group_size: Any, shared: Any
) -> tuple[Any, Any, Any, int]:
    """What follows `kernel` in a launch, with plain numbers. Raises as `refuse` for a kernel that
    is none, or takes another number of arguments.
    """
    if not isinstance(kernel, Kernel) or len(args) != len(kernel.args):
        refuse(device, kernel, args, groups, group_size, shared)
    return (
        arguments(kernel, args),
        _shape("groups", groups),
        _shape("group_size", group_size),
        shared if type(shared) is int else whole("shared", shared, "a number of bytes"),
    )


def arguments(kernel: Kernel, args: Any) -> Any:
    """`args`, as many as the kernel takes, with its scalars as plain numbers."""
    made = None
    for i, kind in kernel.signature.scalars:
        given = args[i]
        if type(given) is int or (type(given) is float and kind in _FLOATS):
            continue
        made = list(args) if made is None else made
        where = f"{kernel.name}: argument {kernel.args[i].name} ({kind})"
        made[i] = real(where, given) if kind in _FLOATS else whole(where, given)
    return args if made is None else made


def whole(where: str, given: Any, wanted: str = "a whole number") -> int:
    """An int; TypeError that begins with `where`, and whatever `__index__` raises."""
    if not isinstance(given, int):
        given = _converted(operator.index, where, given, wanted)
    return int.__index__(given)  # of a subclass, too, what C makes of it


def real(where: str, given: Any, wanted: str = "a number") -> float:
    """A float, or an int that may be too large for one; otherwise as `whole`."""
    if type(given) is int:
        return given
    if isinstance(given, float):
        return float.__float__(given)
    kind = type(given)
    converts = hasattr(kind, "__float__") or hasattr(kind, "__index__")
    # float() reads text, and drops the imaginary part of numpy's complex numbers.
    is_complex = isinstance(given, numbers.Complex) and not isinstance(given, numbers.Real)
    if isinstance(given, str) or is_complex or not converts:
        raise TypeError(f"{where}: expected {wanted}, got {told(given)}")
    return float.__float__(_converted(float, where, given, wanted))


def _converted(convert: Callable[[Any], Any], where: str, given: Any, wanted: str) -> Any:
    try:
        return convert(given)
    except TypeError as error:
        if is_callers(error):
            raise
        raise TypeError(f"{where}: expected {wanted}, got {told(given)}") from error
    except OverflowError as error:
        if is_callers(error):
            raise
        raise ValueError(f"{where}: {told(given)} does not fit, a smaller number does") from error


def is_callers(error: BaseException) -> bool:
    """Was it raised by the caller's code, and not by Python or numpy on behalf of ours?"""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    module = str(at.tb_frame.f_globals.get("__name__", "")) if at is not None else _OURS
    return module.partition(".")[0] != _OURS


def _shape(what: str, given: Any) -> Any:
    """`groups` or `group_size`: None, an int, or up to four in a tuple, one more than there may
    be."""
    if given is None or type(given) is int:
        return given
    if type(given) is tuple and all(type(n) is int for n in given):
        return given  # itself: a dict finds a key that is the same object faster than an equal one
    wanted = "a whole number or up to three"
    if hasattr(type(given), "__index__"):
        return whole(what, given, wanted)
    parts = _converted(lambda each: tuple(islice(each, 4)), what, given, wanted)
    return tuple(n if type(n) is int else whole(what, n, wanted) for n in parts)
