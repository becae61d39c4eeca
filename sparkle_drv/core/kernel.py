"""Kernel: a loaded kernel, what it takes, and the packing of one dispatch record.

`record` is the hot path of every launch: no check that a healthy launch would pass twice. When it
fails, or when native code refuses the record, core/launch_errors.py finds and says what was wrong.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sparkle_drv._hot import KernelBase
from sparkle_drv.backends.base import Loaded
from sparkle_drv.core.abi.extent import Extent
from sparkle_drv.core.abi.records import DISPATCH, DISPATCH_HEAD
from sparkle_drv.core.abi.signature import Arg, Signature
from sparkle_drv.types import Resources

if TYPE_CHECKING:
    from sparkle_drv.core.device import Device

ONE = (1, 1, 1)
_MOST_HEADS = 256


class NeedsWrap(Exception):
    """An argument in a pointer's place is no buffer; the queue may wrap it and try again."""


class Kernel(KernelBase):
    """A loaded kernel, made by `Device.kernel`; immutable until closed.

    `group_size` is the (x, y, z) that a launch without one takes, `dims` how many of these may
    differ from 1, `signature` its arguments with their packing.
    """

    __slots__ = (
        "__weakref__", "_extents", "_finalizer", "_loaded", "_owner", "_pack", "_pointer",
        "dims", "group_size", "name", "signature",
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
        self._pack = signature.pack
        self._plan = signature.plan
        self._heads, self._shapes, self._grids = {}, {}, {}  # see _where
        self._extents = [Extent(text, signature.integers) for text in loaded.groups]
        self._sizes = bytes(sorted({i for extent in self._extents for i in extent.arguments}))
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

    def record(
        self, device: Device, args: Sequence[Any], groups: Any, group_size: Any, shared: Any
    ) -> bytes:
        """One dispatch record (sp_cmd.h); NeedsWrap, or whatever packing raises (@private)."""
        try:
            kept, key = self._where(args, groups, group_size, shared)
            head = kept[key]
        except (LookupError, TypeError):
            head = self._head(args, groups, group_size, shared)
        try:
            return self._pack(device, head, args)
        except AttributeError:
            raise NeedsWrap from None

    def _head(self, args: Sequence[Any], groups: Any, group_size: Any, shared: Any) -> bytes:
        """The head of a record for one launch shape; the last few hundred shapes are kept."""
        size = self.group_size if group_size is None else triple("group_size", group_size)
        signature = self.signature
        grid = self.grid(groups, args, size)
        if self.dims < 3 and any(n != 1 for n in (*grid[self.dims :], *size[self.dims :])):
            raise ValueError("more dimensions than the kernel has")
        head = DISPATCH_HEAD.pack(
            DISPATCH,
            signature.record_nbytes,
            self._pointer,
            *grid,
            *size,
            shared,
            signature.args_nbytes,
        )
        kept, key = self._where(args, groups, group_size, shared)
        if kept is not self._shapes or groups is not None or not self._sizes:
            if len(kept) >= _MOST_HEADS:
                kept.clear()
            with contextlib.suppress(TypeError):  # a list or an array cannot be looked up again
                kept[key] = head
        return head

    def _where(
        self, args: Sequence[Any], groups: Any, group_size: Any, shared: Any
    ) -> tuple[dict[Any, bytes], Any]:
        """Where a launch's head is kept, and by what; as native/hot/launch/heads.c has it.
        The numbers are plain (plain_numbers.py).
        """
        if group_size is not None or shared:
            return self._shapes, (groups, group_size, shared)
        if groups is not None or not self._sizes:
            return self._heads, groups
        key = tuple(args[i] for i in self._sizes)
        return self._grids, key[0] if len(key) == 1 else key

    def grid(
        self, groups: Any, args: Sequence[Any], size: tuple[int, int, int]
    ) -> tuple[int, int, int]:
        """`groups` as a triple; None: the kernel knows its grid, for groups of its own size, or is
        a routine (@private).
        """
        if groups is not None:
            return triple("groups", groups)
        if self._extents and size != self.group_size:
            raise ValueError(
                f"{self.name}: groups= is wanted with group_size {size}: the grid that it knows is "
                f"of groups of {self.group_size}"
            )
        if self._extents:
            return triple("groups", [extent.value(args) for extent in self._extents])
        if self.form == "routine":
            return ONE
        raise TypeError(f"{self.name}: groups= is wanted: the number of workgroups, as (x, y, z)")

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
