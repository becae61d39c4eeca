"""Storage: one allocation, which its buffers, views and arrays share and which is freed once."""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkle_drv._hot import StorageBase
from sparkle_drv.core.retire import Pin
from sparkle_drv.types import Memory

if TYPE_CHECKING:
    from sparkle_drv.core.device import Device


class Storage(StorageBase):
    """One allocation.

    `device` is None after `close`. A launch tests only this member to see that memory is open.

    A call that copies or maps the memory keeps the result of `pin` in a local variable. If another
    thread closes the storage meanwhile, the memory is freed after the call.
    """

    __slots__ = (
        "__weakref__",
        "_entry",
        "_finalizer",
        "_pins",
        "address",
        "exposed",
        "handle",
        "memory",
        "nbytes",
        "owner",
    )

    def __init__(
        self,
        device: Device,
        handle: Any,
        address: int,
        nbytes: int,
        memory: Memory,
        exposed: bool = False,
    ) -> None:
        self.device = device
        self.owner = device
        self.handle = handle
        self.address = address
        self.nbytes = nbytes
        self.memory = memory
        self.exposed = exposed
        """True if others may write to the memory; expressions over it then run at once
        (@private)."""
        self._pins: set[weakref.ref[Pin]] = set()
        retired = device._retired
        self._entry = retired.own(self, partial(device._backend.free, handle))
        self._finalizer = weakref.finalize(self, retired.retire, self._entry)
        # At exit, threads may still copy here without the GIL. They keep this object; the memory of
        # others goes with the process (RetireList.abandon).
        self._finalizer.atexit = False

    def close(self) -> None:
        """Closes the allocation. Work in flight keeps the memory; a second call does nothing, but
        ends a first call that was interrupted.
        """
        if self._finalizer.alive:
            self.device = None
            self.owner._advance()
            # `pin` adds itself before it reads `device`, so this copy has every pin that counts.
            self.owner._retired.retire(self._entry, *self._pins)
            self._finalizer.detach()

    def pin(self) -> Pin:
        """Returns an object that keeps the memory until it is gone.

        Raises ValueError if the storage is closed, DeviceLost if its device is closed.
        """
        pin = Pin()
        self._pins.add(weakref.ref(pin, self._pins.discard))
        if self.device is None:
            self.owner._check_open()
            raise ValueError("the buffer is closed")
        return pin
