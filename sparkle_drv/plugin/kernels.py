"""The loaded kernels of a backend written in Python, found by the numbers in dispatch records.

This file also has the check of a dispatch. Native backends make this check in C.
"""

from __future__ import annotations

import errno
import itertools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sparkle_drv._native import ffi, lib
from sparkle_drv.backends.base import KernelSpec
from sparkle_drv.core.abi.signature import SCALARS
from sparkle_drv.plugin.commands import Dispatch, decode
from sparkle_drv.types import DeviceInfo, Resources

# Numbers of kernels. A number is never 0, and never used again in the process. So an old record, of
# a kernel that was removed, does not name a later kernel.
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Entry:
    """One loaded kernel.

    >>> kernels = plugin.Kernels(dev.info)
    >>> spec = plugin.KernelSpec("axpy", "axpy", native=None, args=("f32*", "f32"))
    >>> entry = kernels.add(spec, sp.Resources(max_group_size=256), own="the loaded function")
    >>> kernels.find(entry.pointer).own
    'the loaded function'
    """

    pointer: int
    """The number of the kernel in dispatch records, for `Loaded.pointer`."""
    spec: KernelSpec
    """The spec from which the kernel was loaded."""
    resources: Resources
    """The kernel's resources; `max_group_size` is a limit."""
    own: Any
    """The backend's own object for the kernel."""
    layout: struct.Struct
    """The arguments in natural C alignment."""

    def values(self, dispatch: Dispatch) -> tuple[Any, ...]:
        """Returns the arguments of a dispatch: numbers, and addresses for pointers (0: null)."""
        return self.layout.unpack_from(dispatch.args)


Refuses = Callable[[Entry, Dispatch], str]
"""Returns why a kernel cannot run a dispatch whose shape is within the limits; "" if it can."""


class Kernels:
    """The kernels of one device. Any thread may call it: each method does one operation on a dict.

    >>> kernels = plugin.Kernels(dev.info)
    >>> spec = plugin.KernelSpec("axpy", "axpy", native=None, args=("f32*", "f32"))
    >>> entry = kernels.add(spec, sp.Resources(max_group_size=256), own="the loaded function")
    >>> kernels.find(entry.pointer) is entry
    True
    >>> kernels.remove(entry)
    >>> len(kernels)
    0
    """

    def __init__(self, info: DeviceInfo, refuses: Refuses | None = None) -> None:
        self._info = info
        self._refuses = refuses
        self._entries: dict[int, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, spec: KernelSpec, resources: Resources, own: Any, pointer: int = 0) -> Entry:
        """Adds a loaded kernel and returns its Entry.

        `own` is the backend's object for the kernel. `pointer` is the number of the kernel if the
        backend has chosen one; 0 asks for a new number.
        """
        codes = "".join("Q" if t.endswith("*") else SCALARS[t] for t in spec.args)
        layout = struct.Struct("@" + codes)  # with "@", struct aligns as C does
        entry = Entry(pointer or next(_numbers), spec, resources, own, layout)
        self._entries[entry.pointer] = entry
        return entry

    def remove(self, entry: Entry) -> None:
        """Removes an unloaded kernel; a second call does nothing."""
        self._entries.pop(entry.pointer, None)

    def find(self, pointer: int) -> Entry | None:
        """Returns the kernel that a dispatch names; None if it is not loaded."""
        return self._entries.get(pointer)

    def check(self, dispatch: Dispatch) -> int:
        """Returns 0, or the -errno of a refused launch.

        The result is -EINVAL if the kernel is not loaded, the shape exceeds the limits of device or
        kernel, or the backend refuses the dispatch. Otherwise it is the result of
        sp_signature_check for the arguments (sp_cmd.h).
        """
        entry = self._entries.get(dispatch.kernel)
        if entry is None or not self._fits(dispatch, entry.resources):
            return -errno.EINVAL
        if len(dispatch.args) < entry.layout.size or self._words(entry, dispatch):
            return -errno.EINVAL
        args = ffi.from_buffer(dispatch.args)
        rc: int = lib.sp_signature_check(entry.spec.native, args, ffi.NULL, ffi.NULL)
        return rc

    def refusal(self, record: bytes, rc: int) -> str:
        """Returns why the kernel cannot run this dispatch, for the ability TellsRefusal."""
        del rc
        for _, command in decode(record):
            if isinstance(command, Dispatch) and (entry := self.find(command.kernel)) is not None:
                return self._words(entry, command)
        return ""

    def _words(self, entry: Entry, dispatch: Dispatch) -> str:
        return self._refuses(entry, dispatch) if self._refuses is not None else ""

    def _fits(self, dispatch: Dispatch, resources: Resources) -> bool:
        most = resources.max_groups or self._info.max_groups
        x, y, z = dispatch.group_size
        limit = min(self._info.max_group_size, resources.max_group_size)
        threads = x * y * z
        gx, gy, gz = dispatch.groups
        return (
            all(n <= m for n, m in zip(dispatch.groups, most, strict=True))
            and 1 <= threads <= limit
            and gx * gy * gz * threads < 1 << 64
            and dispatch.shared_nbytes <= self._info.max_shared_nbytes
        )
