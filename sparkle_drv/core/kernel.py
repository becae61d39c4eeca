"""Kernel: a loaded kernel, what it takes, and by what C packs its launches."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from sparkle_drv._hot import KernelBase
from sparkle_drv._native import ffi
from sparkle_drv.backends.base import Loaded
from sparkle_drv.core.abi.records import DISPATCH
from sparkle_drv.core.abi.signature import Arg, Signature
from sparkle_drv.types import DeviceInfo, Resources

if TYPE_CHECKING:
    from sparkle_drv.core.device import Device

_U32 = 2**32 - 1


class Kernel(KernelBase):
    """A loaded kernel, made by `Device.kernel`; immutable until closed.

    `group_size` is the (x, y, z) that a launch without one takes, `dims` how many of these may
    differ from 1, `signature` its arguments with their packing.
    """

    __slots__ = (
        "__weakref__", "_finalizer", "_loaded", "_owner", "_pointer", "dims", "group_size", "name",
        "signature",
    )  # fmt: skip

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
        self.group_size = group_size
        self.dims = dims
        self._device = device  # None once closed
        self._owner = device
        self._loaded = loaded
        self._pointer = loaded.pointer
        self._packing = bytes(ffi.buffer(self._native(device.info)))
        backend = device._backend
        handle = loaded.handle
        self._finalizer = weakref.finalize(
            self, device._retired.retire, lambda: backend.unload(handle)
        )

    def __repr__(self) -> str:
        return f"<Kernel {self.name}{self.signature!r}{' closed' if self.closed else ''}>"

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def args(self) -> tuple[Arg, ...]:
        """Its arguments in order, each with `name` and `type` ("f32" or "f32*")."""
        return self.signature.args

    @property
    def form(self) -> str:
        """ "grid" (groups of threads) or "routine" (one call that uses the whole device)."""
        return self._loaded.form

    @property
    def groups(self) -> tuple[str, ...]:
        """The grid in terms of the integer arguments, ("n/256",), when the kernel knows it: then
        `launch` needs none. Empty when it does not.
        """
        return self._loaded.groups

    @property
    def resources(self) -> Resources:
        """Registers, shared memory, spills, largest group; None where the driver does not tell."""
        return self._loaded.resources

    @property
    def device(self) -> Device:
        """Where it was loaded; also once it is closed."""
        return self._owner

    @property
    def closed(self) -> bool:
        """Was it closed? Its device may be."""
        return self._device is None

    def _native(self, info: DeviceInfo) -> Any:
        """Its struct sp_packing."""
        loaded, signature = self._loaded, self.signature
        packing = ffi.new("struct sp_packing *")
        packing.head = (
            DISPATCH, signature.record_nbytes, loaded.pointer, (1, 1, 1), self.group_size, 0,
            signature.args_nbytes,
        )  # fmt: skip
        packing.dims, packing.is_routine = self.dims, self.form == "routine"
        limits = loaded.resources.max_groups or info.max_groups
        packing.most_groups = [min(n, _U32) for n in limits]
        packing.most_threads = min(info.max_group_size, loaded.resources.max_group_size)
        packing.most_shared = info.max_shared_nbytes
        packing.sig = signature.native[0]
        packing.ngrid = len(loaded.groups)
        at = packing.sig.nsteps
        for axis, text in enumerate(loaded.groups):
            packing.nsteps[axis] = signature.compile(text, packing.sig, at)
            at += packing.nsteps[axis]
        return packing

    def close(self) -> None:
        """Idempotent. Launches in flight keep the code until they have ended."""
        if self._device is not None:
            self._device = None
            self._owner._advance()
            self._finalizer()


def triple(what: str, value: Any) -> tuple[int, int, int]:
    """An int or a sequence of one to three as (x, y, z), missing ones 1; TypeError otherwise."""
    parts = (value,) if hasattr(value, "__index__") else value
    try:
        numbers = [p.__index__() for p in parts]
    except (AttributeError, TypeError):
        raise TypeError(
            f"{what}: a whole number or up to three are wanted, got {value!r}"
        ) from None
    if not 1 <= len(numbers) <= 3:
        raise ValueError(f"{what}: one to three numbers are wanted, got {value!r}")
    x, y, z = [*numbers, 1, 1][:3]
    return x, y, z
