"""Kernel: a loaded kernel, its signature, and the struct by which C packs its launches."""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkle_drv._hot import KernelBase
from sparkle_drv._native import ffi
from sparkle_drv.backends.base import Loaded
from sparkle_drv.core.abi.records import DISPATCH
from sparkle_drv.core.abi.signature import Signature
from sparkle_drv.core.closing import Closing
from sparkle_drv.core.whole_number import several
from sparkle_drv.types import DeviceInfo

if TYPE_CHECKING:
    from sparkle_drv.core.device import Device

_U32 = 2**32 - 1


class Kernel(KernelBase, Closing):
    """A loaded kernel, made by `Device.kernel`; immutable until closed.

    `group_size` is the (x, y, z) for launches that give none. `dims` is how many of these three
    numbers may differ from 1. `signature` has the arguments with their packing.

    >>> with dev.kernel("saxpy_f32") as k:
    ...     k.name, [a.name for a in k.signature.args], k.resources.max_group_size > 0
    ('saxpy_f32', ['y', 'x', 'a', 'n'], True)
    """

    def __init__(
        self,
        device: Device,
        name: str,
        signature: Signature,
        loaded: Loaded,
        group_size: tuple[int, int, int],
        dims: int = 3,
    ) -> None:
        self.name = name
        self.signature = signature
        self.args = signature.args
        """The kernel's arguments in order, each with `name` and `type` ("f32" or "f32*")."""
        self.form = loaded.form
        """ "grid" (groups of threads) or "routine" (one call that uses the whole device)."""
        self.groups = loaded.groups
        """The grid as expressions over the integer arguments, such as ("n/256",). If there are any,
        `launch` needs no `groups`.
        """
        self.resources = loaded.resources
        """Registers, shared memory, spills, largest group; None if the driver does not tell."""
        self.group_size = group_size
        self.own_size = loaded.group_size
        """The group size for which the code is compiled; None if any fits (@private)."""
        self.dims = dims
        self.device = device
        """The device that loaded the kernel, also after `close`."""
        self._device = device  # None after `close`
        self._pointer = loaded.pointer
        self._packing = bytes(ffi.buffer(self._native(device.info)))
        entry = device._retired.own(self, partial(device._backend.unload, loaded.handle))
        self._finalizer = weakref.finalize(self, device._retired.retire, entry)
        self._finalizer.atexit = False  # as in Storage: threads may still launch the kernel

    def __repr__(self) -> str:
        return f"<Kernel {self.name}{self.signature!r}{' closed' if self.closed else ''}>"

    @property
    def closed(self) -> bool:
        """True if the kernel itself is closed; closing its device does not set this."""
        return self._device is None

    def _native(self, info: DeviceInfo) -> Any:
        """Returns the struct sp_packing, by which C packs launches of this kernel."""
        signature, resources = self.signature, self.resources
        packing = ffi.new("struct sp_packing *")
        packing.head = (
            DISPATCH, signature.record_nbytes, self._pointer, (1, 1, 1), self.group_size, 0,
            signature.args_nbytes,
        )  # fmt: skip
        packing.dims, packing.is_routine = self.dims, self.form == "routine"
        limits = resources.max_groups or info.max_groups
        packing.most_groups = [min(n, _U32) for n in limits]
        packing.most_threads = min(info.max_group_size, resources.max_group_size)
        packing.most_shared = info.max_shared_nbytes
        packing.sig = signature.native[0]
        packing.ngrid = len(self.groups)
        at = packing.sig.nsteps
        for axis, text in enumerate(self.groups):
            packing.nsteps[axis] = signature.compile(text, packing.sig, at)
            at += packing.nsteps[axis]
        return packing

    def close(self) -> None:
        """Closes the kernel. Launches in flight keep the code; a second call does nothing."""
        if self._device is not None:
            self._device = None
            self.device._advance()
            self._finalizer()


def triple(what: str, value: Any) -> tuple[int, int, int]:
    """Returns an int, or one to three ints, as (x, y, z); missing numbers are 1.

    Raises TypeError for anything but whole numbers, ValueError if there are not one to three.
    """
    numbers = several(what, value, "a whole number or up to three")
    if not 1 <= len(numbers) <= 3:
        raise ValueError(f"{what}: expected one to three numbers, got {value!r}")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z
