"""Why a launch was refused, argument by argument.

Runs only after the fast path has failed, and always raises. plain_numbers.py has converted numbers.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from sparkle_drv._native import ffi, lib
from sparkle_drv.core.abi.records import DISPATCH_HEAD
from sparkle_drv.core.abi.signature import SCALARS, Arg
from sparkle_drv.core.kernel import Kernel, triple
from sparkle_drv.errors import DeviceLost, check

if TYPE_CHECKING:
    from sparkle_drv.core.device import Device

_OURS = (-errno.ECHILD, -errno.ESHUTDOWN, -errno.ESTALE)  # not what a driver says
_RANGES = {"i32": (-(2**31), 2**31), "u32": (0, 2**32), "i64": (-(2**63), 2**63), "u64": (0, 2**64)}


def refuse(
    device: Device,
    kernel: Any,
    args: Sequence[Any],
    groups: Any,
    group_size: Any,
    shared: Any,
    rc: int = 0,
    record: bytes = b"",
    cause: BaseException | None = None,
) -> NoReturn:
    """Raise the error that names the argument, what was given and what is wanted."""
    device._check_open()
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel: a Kernel is wanted, got {told(kernel)}")
    if kernel.closed:
        raise ValueError(f"kernel {kernel.name} is closed")
    if kernel.device is not device:
        raise ValueError(
            f"kernel {kernel.name} belongs to {device._another(kernel.device)}, this queue to "
            f"{device.uri}"
        )
    if len(args) != len(kernel.args):
        raise TypeError(
            f"{kernel.name}{kernel.signature!r} takes {len(kernel.args)} arguments, got {len(args)}"
        )
    for arg, given in zip(kernel.args, args, strict=True):
        (_pointer if arg.is_pointer else _scalar)(device, kernel, arg, given)
    _grid(device, kernel, args, groups, group_size, shared)
    if record:
        _extents(kernel, record)
    if rc == -errno.EINVAL and kernel.form == "routine":
        raise ValueError(
            f"{kernel.name}{tuple(map(_brief, args))}: the kernel refused these arguments (EINVAL)"
        )
    if rc < 0:
        _of_the_device(device, kernel, record, rc)
        check_told(device, rc, f"launch of {kernel.name}")
    raise cause or ValueError(f"{kernel.name}: refused without a known reason (code {rc})")


def check_told(device: Device, rc: int, call: str) -> None:
    """As errors.check, with what the backend knows of how the device was lost, or of the call."""
    loss, error = device._abilities.tells_loss, device._abilities.tells_error
    words = loss.lost() if loss is not None and rc == -errno.ENODEV else ""
    if words:
        raise DeviceLost(f"{device.uri}: {call}: {words}")
    if error is not None and rc not in _OURS and (words := error.said()):
        call = f"{call}: {words}"
    check(rc, call, device.uri)


def _of_the_device(device: Device, kernel: Kernel, record: bytes, rc: int) -> None:
    told = device._abilities.tells_refusal
    words = told.refusal(record, rc) if told is not None and record else ""
    if words:
        raise ValueError(f"{kernel.name}: {words} ({device.uri})")


def _shown(given: object) -> str:
    try:
        text = repr(given)
    except Exception:  # a broken __repr__, or an int of more digits than Python prints
        return f"this {type(given).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def told(given: object) -> str:
    """Its type and its text, for an error."""
    return f"{type(given).__name__} {_shown(given)}"


def _brief(given: object) -> object:
    return _shown(given) if isinstance(given, (int, float)) else type(given).__name__


def _scalar(device: Device, kernel: Kernel, arg: Arg, given: Any) -> None:
    where = f"{kernel.name}: argument {arg.name} ({arg.type})"
    try:
        struct.pack("=" + SCALARS[arg.type][0], given)
    except (struct.error, OverflowError):
        low, high = _RANGES.get(arg.type, (0, 0))
        wanted = f"{low} to {high - 1}" if high else "a smaller number"
        raise ValueError(f"{where}: {_shown(given)} does not fit, {wanted} does") from None


def _pointer(device: Device, kernel: Kernel, arg: Arg, given: Any) -> None:
    where = f"{kernel.name}: argument {arg.name} ({arg.type})"
    if given is None:
        if arg.optional:
            return
        raise TypeError(f"{where}: a Buffer or Array is wanted, got None")
    if not hasattr(given, "_storage"):
        raise TypeError(f"{where}: a Buffer or Array is wanted, got {told(given)}")
    if given.closed:
        raise ValueError(f"{where}: the buffer is closed")
    if given.device is not device:
        raise ValueError(
            f"{where}: the buffer belongs to {device._another(given.device)}, this queue to "
            f"{device.uri}"
        )
    if not given._elements & arg.elements:
        raise TypeError(
            f"{where}: elements of that type are wanted, this is an Array of {given.dtype}"
        )
    if given.readonly and arg.is_written:
        raise ValueError(f"{where}: it is written, and the buffer is read-only")


def _grid(
    device: Device, kernel: Kernel, args: Any, groups: Any, group_size: Any, shared: Any
) -> None:
    info = device.info
    s = kernel.group_size if group_size is None else triple("group_size", group_size)
    g = kernel.grid(groups, args, s)
    limits = kernel.resources.max_groups or info.max_groups
    for axis, n, most in zip("xyz", g, limits, strict=True):
        if not 0 <= n <= most:
            raise ValueError(f"groups: {n} in {axis}; 0 to {most} are possible on {device.uri}")
    threads = s[0] * s[1] * s[2]
    limit = min(info.max_group_size, kernel.resources.max_group_size)
    if min(s) < 1 or threads > limit:
        raise ValueError(
            f"group_size: {s} makes {threads} threads; 1 to {limit} are possible on {device.uri}"
        )
    if g[0] * g[1] * g[2] * threads >= 1 << 64:
        raise ValueError(f"groups: {g} of {s} make more threads than 64 bits can count")
    if kernel.form == "routine" and g[0] * g[1] * g[2] != 1:
        raise ValueError(f"groups: {kernel.name} is a routine and takes one group, got {g}")
    if any(n != 1 for n in (*g[kernel.dims :], *s[kernel.dims :])):
        raise ValueError(
            f"groups: {kernel.name} has {kernel.dims} dimension(s), got groups {g} of {s}"
        )
    if not 0 <= shared <= info.max_shared_nbytes:
        raise ValueError(
            f"shared: {shared} bytes; 0 to {info.max_shared_nbytes} are possible on {device.uri}"
        )


def _extents(kernel: Kernel, record: bytes) -> None:
    bad, need = ffi.new("uint32_t *"), ffi.new("uint64_t *")
    block = ffi.new("char[]", record[DISPATCH_HEAD.size :])
    rc = lib.sp_signature_check(kernel.signature.native, block, bad, need)
    if rc == 0:
        return
    arg = kernel.args[bad[0]]
    where = f"{kernel.name}: argument {arg.name} ({arg.type})"
    if rc == -errno.ERANGE:
        pointers = [i for i, a in enumerate(kernel.args) if a.is_pointer]
        at = len(record) - 8 * len(pointers) + 8 * pointers.index(bad[0])
        have = struct.unpack_from("=Q", record, at)[0]
        raise ValueError(
            f"{where}: {arg.extent} elements are {need[0]} bytes, the buffer has {have}"
        )
    if rc == -errno.EOVERFLOW:
        raise ValueError(f"{where}: {arg.extent} elements do not fit into 64 bits")
    raise ValueError(f"{where}: its extent {arg.extent!r} makes no sense for these arguments")


def lost(device: Device, rc: int, call: str) -> NoReturn:
    """Raise for a submission with nothing wrong in it: the device is closed, lost or full."""
    device._check_open()
    check_told(device, rc, call)
    raise DeviceLost(f"{device.uri}: {call} returned {rc}")
