"""Raises the error of a refused launch: C refuses a wrong argument (native/hot/launch/pack.c), or
the backend refuses the launch.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from sparkle_drv import _hot
from sparkle_drv._native import lib
from sparkle_drv.core.abi.signature import Arg
from sparkle_drv.core.host_pointer import Pointer
from sparkle_drv.core.kernel import Kernel, triple
from sparkle_drv.errors import DeviceLost, check

if TYPE_CHECKING:
    from sparkle_drv.core.device import Device

Refusal = tuple[int, int, int]
"""(enum sp_refusal, index of the argument, axis or launch option, the number concerned)."""
Shape = tuple[Any, Any, Any]
"""(groups, group_size, shared)."""
WORDS = ("groups", "group_size", "shared")
_OURS = (-errno.ECHILD, -errno.ESHUTDOWN, -errno.ESTALE)  # errors of this package, not of a driver


def packed(device: Device, kernel: Any, args: tuple[Any, ...], words: Shape) -> bytes:
    """Returns the record of a launch, or raises the error of its refusal.

    `words` is (groups, group_size, shared) of the launch. The numbers among `args` and `words`
    are Python's own: `_hot.plain` has converted them.
    """
    for given in args:
        if isinstance(given, Pointer):
            given._ready()
    made: bytes | Refusal = _hot.pack(device, kernel, args, *words)
    if isinstance(made, tuple):
        refuse(device, kernel, args, words, made)
    return made


def refuse(
    device: Device, kernel: Any, args: Sequence[Any], words: Shape, why: Refusal
) -> NoReturn:
    """Raises the error of a refusal, which names the argument, the expected and the given value."""
    device._check_open()
    code, index, number = why
    if code == lib.SP_REFUSED_KERNEL:
        raise TypeError(f"kernel: expected a Kernel, got {type_and_repr(kernel)}")
    if code == lib.SP_REFUSED_KERNEL_CLOSED:
        raise ValueError(f"kernel {kernel.name} is closed")
    if code == lib.SP_REFUSED_KERNEL_ELSEWHERE:
        device._check_own(f"kernel {kernel.name}", kernel.device)
    if code == lib.SP_REFUSED_COUNT:
        raise TypeError(
            f"{kernel.name}{kernel.signature!r} takes {len(kernel.args)} arguments, got {len(args)}"
        )
    if lib.SP_REFUSED_WORD <= code <= lib.SP_REFUSED_SHARED:
        _shape(device, kernel, words, why)
    arg, argument = kernel.args[index], args[index]
    where = f"{kernel.name}: argument {arg.name} ({arg.type})"
    if code == lib.SP_REFUSED_ELSEWHERE:
        device._check_own(f"{where}: the buffer", argument.device)
    kind, says = _argument(arg, argument, code, number)
    raise kind(f"{where}: {says}")


def _argument(arg: Arg, argument: Any, code: int, number: int) -> tuple[type[Exception], str]:
    match code:
        case lib.SP_REFUSED_NUMBER:
            wanted = "a number" if arg.type[0] == "f" else "a whole number"
            return TypeError, f"expected {wanted}, got {type_and_repr(argument)}"
        case lib.SP_REFUSED_RANGE:
            half = 2 ** (8 * arg.nbytes - 1)
            whole = {"i": f"{-half} to {half - 1}", "u": f"0 to {2 * half - 1}"}
            wanted = whole.get(arg.type[0], "a smaller number")
            return ValueError, f"expected {wanted}, got {_shown(argument)}"
        case lib.SP_REFUSED_POINTER:
            shown = "None" if argument is None else type_and_repr(argument)
            return TypeError, f"expected a Buffer or Array, got {shown}"
        case lib.SP_REFUSED_CLOSED:
            return ValueError, "the buffer is closed"
        case lib.SP_REFUSED_ELEMENTS:
            return TypeError, f"expected elements of that type, got an Array of {argument.dtype}"
        case lib.SP_REFUSED_READONLY:
            return ValueError, "the kernel writes to it, but the buffer is read-only"
        case lib.SP_REFUSED_SHORT:
            has = argument.nbytes
            return ValueError, f"{arg.extent} elements are {number} bytes, the buffer has {has}"
        case lib.SP_REFUSED_OVERFLOW:
            return ValueError, f"the size of {arg.extent} elements does not fit into 64 bits"
    return ValueError, f"its extent {arg.extent!r} has no valid value for these arguments"


def _shape(device: Device, kernel: Kernel, words: Shape, why: Refusal) -> NoReturn:
    code, index, number = why
    groups, size, shared = words
    info = device.info
    match code:
        case lib.SP_REFUSED_WORD:
            wanted = ("a whole number or up to three",) * 2 + ("a number of bytes",)
            raise TypeError(
                f"{WORDS[index]}: expected {wanted[index]}, got {type_and_repr(words[index])}"
            )
        case lib.SP_REFUSED_AXES:
            raise ValueError(f"{WORDS[index]}: expected one to three numbers, got {words[index]!r}")
        case lib.SP_REFUSED_NO_GROUPS:
            raise TypeError(
                f"{kernel.name}: expected groups=, the number of workgroups as (x, y, z)"
            )
        case lib.SP_REFUSED_SHARED:
            raise ValueError(
                f"shared: expected 0 to {info.max_shared_nbytes} bytes on {device.uri}, got "
                f"{shared}"
            )
    s = kernel.group_size if size is None else triple("group_size", size)
    g = kernel.groups if groups is None else triple("groups", groups)
    match code:
        case lib.SP_REFUSED_OWN_SIZE:
            raise ValueError(
                f"{kernel.name}: expected groups= with group_size {s}: the kernel's own grid is "
                f"for groups of {kernel.group_size}"
            )
        case lib.SP_REFUSED_GROUPS:
            n = number if groups is None else g[index]
            most = (kernel.resources.max_groups or info.max_groups)[index]
            raise ValueError(
                f"groups: expected 0 to {most} in {'xyz'[index]} on {device.uri}, got {n}"
            )
        case lib.SP_REFUSED_GROUP_SIZE:
            limit = min(info.max_group_size, kernel.resources.max_group_size)
            raise ValueError(
                f"group_size: expected 1 to {limit} threads on {device.uri}, got {s}, which is "
                f"{s[0] * s[1] * s[2]} threads"
            )
        case lib.SP_REFUSED_THREADS:
            raise ValueError(f"groups: {g} of {s} threads: the total does not fit into 64 bits")
        case lib.SP_REFUSED_ROUTINE:
            raise ValueError(f"groups: expected one group: {kernel.name} is a routine, got {g}")
    raise ValueError(
        f"groups: expected at most {kernel.dims} dimension(s) for {kernel.name}, "
        f"got groups {g} of group size {s}"
    )


def refused_by_backend(
    device: Device, kernel: Kernel, args: Sequence[Any], words: Shape, record: bytes, rc: int
) -> NoReturn:
    """Raises the error of a launch whose `record` the backend refused with `rc`."""
    device._check_open()
    why: Refusal | None = _hot.judge(kernel, record)
    if why is not None:
        refuse(device, kernel, args, words, why)
    if rc == -errno.EINVAL and kernel.form == "routine":
        raise ValueError(
            f"{kernel.name}({', '.join(map(_shown, args))}): the kernel refused these arguments "
            "(EINVAL)"
        )
    if rc < 0:
        tells = device._abilities.tells_refusal
        says = tells.refusal(record, rc) if tells is not None else ""
        if says:
            raise ValueError(f"{kernel.name}: the launch was refused: {says} ({device.uri})")
        check_told(device, rc, f"launch of {kernel.name}")
    raise ValueError(f"{kernel.name}: the launch was refused without a known reason (code {rc})")


def check_told(device: Device, rc: int, call: str) -> None:
    """Raises the exception of a negative `rc` (-errno), as `errors.check` does.

    The message has the backend's text about the failure, if there is one.
    """
    loss, error = device._abilities.tells_loss, device._abilities.tells_error
    words = loss.lost() if loss is not None and rc == -errno.ENODEV else ""
    if words:
        raise DeviceLost(f"{device.uri}: {call}: {words}")
    if error is not None and rc not in _OURS and (words := error.said()):
        call = f"{call}: {words}"
    check(rc, call, device.uri)


def _shown(argument: object) -> str:
    try:
        text = repr(argument)
    except Exception:  # __repr__ fails, or an int has more digits than Python prints
        return f"this {type(argument).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def type_and_repr(given: object) -> str:
    """Returns the type and the repr of `given`, for an error message."""
    return f"{type(given).__name__} {_shown(given)}"
