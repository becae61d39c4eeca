"""One render node of a replay: translates recorded handles to the replay's handles, and keeps the
contents that the BOs should have.
"""

from __future__ import annotations

import errno
import functools
from typing import Any

from sparkle_drv._native import ffi, lib
from sparkle_drv.amd.tables.bits import canonical
from sparkle_drv.amd.tables.values import CopySel, DataSel

from .read import MemoryWrite

PAGE = 4096
READ_WRITE, SHARED = 3, 1  # values of mmap(2): PROT_READ | PROT_WRITE, MAP_SHARED


class Bo:
    """A buffer object of a replay. `held` is the content that the recording gives. `view` is the
    memory, or None if it is not mapped.
    """

    def __init__(self, handle: int, nbytes: int, view: Any = None) -> None:
        self.handle, self.nbytes, self.view = handle, nbytes, view
        # the memory of a userptr, which lives as long as this object; otherwise None
        self.own = view
        self.unheld = not nbytes  # whether the recording lacks the memory of this BO
        self.written = False  # whether the replay has written the whole BO once

    @functools.cached_property
    def held(self) -> bytearray:
        """The BO's content according to the recording; zeros at first. The bytes are allocated when
        they are first used. A large BO, whose content is not recorded, thus needs none.
        """
        return bytearray(self.nbytes)


class ReplayNode:
    """One render node of a replay. `names` maps, by kind of object, each recorded handle to the
    replay's handle. `bos` has the BOs by recorded handle.
    """

    def __init__(self, ops: Any, fd: int) -> None:
        self.ops, self.fd = ops, fd
        self.names: dict[str, dict[int, int]] = {
            kind: {0: 0} for kind in ("bo", "ctx", "syncobj", "list")
        }
        self.bos: dict[int, Bo] = {}
        # GPU mappings (address, bytes, BO, offset in the BO); where mappings overlap, the last one
        # counts
        self.maps: list[tuple[int, int, int, int]] = []

    def ioctl(self, request: int, argument: Any, deadline_ns: int) -> int:
        return int(lib.sp_kmd_ioctl(self.ops, self.fd, request, argument, deadline_ns))

    def view(self, bo: Bo) -> Any:
        """Returns the memory of a BO, or None if the CPU cannot access it."""
        if bo.view is None:
            args = ffi.new("union drm_amdgpu_gem_mmap *")
            getattr(args, "in").handle = bo.handle
            if self.ioctl(lib.DRM_IOCTL_AMDGPU_GEM_MMAP, args, 0) < 0:
                return None
            offset = args.out.addr_ptr
            at = self.ops.mmap(self.ops.self, bo.nbytes, READ_WRITE, SHARED, self.fd, offset)
            if -PAGE < at < 0:
                return None
            bo.view = ffi.buffer(ffi.cast("void *", at), bo.nbytes)
        return bo.view

    def drop(self, number: int) -> None:
        """Removes a BO that the recording closed, and unmaps it."""
        bo = self.bos.pop(number, None)
        self.names["bo"].pop(number, None)
        self.maps = [one for one in self.maps if one[2] != number]
        if bo is not None and bo.view is not None and bo.own is None:
            self.ops.munmap(self.ops.self, ffi.from_buffer(bo.view), bo.nbytes)

    def close(self) -> None:
        for number in list(self.bos):
            self.drop(number)
        if self.fd >= 0:
            self.ops.close(self.ops.self, self.fd)
            self.fd = -1

    # Memory

    def hold(self, write: MemoryWrite) -> None:
        """Stores the bytes that a BO should have from now on. Bytes that the CPU wrote also go to
        the BO itself, once the replay has written the whole BO.
        """
        bo = self.bos[write.bo]
        end = write.at + len(write.data)
        if end > bo.nbytes:
            raise ValueError(
                f"BO {write.bo}: expected writes up to byte {bo.nbytes}, got one up to {end}"
            )
        bo.held[write.at : end] = write.data
        if write.who == "cpu" and bo.written and (view := self.view(bo)) is not None:
            view[write.at : end] = write.data

    def fill(self) -> None:
        """Fills every BO that is not filled yet with its content according to the recording."""
        for bo in self.bos.values():
            if bo.unheld or bo.written:
                continue
            if (view := self.view(bo)) is not None:
                view[:] = bytes(bo.held)
                bo.written = True

    def place(self, va: int) -> tuple[int, int] | None:
        """Returns the BO that is mapped at a GPU address, as its recorded handle, and the offset in
        the BO. Returns None if no BO is mapped there.
        """
        for begin, nbytes, number, offset in reversed(self.maps):
            if begin <= canonical(va) < begin + nbytes:
                return number, offset + canonical(va) - begin
        return None

    def learn_va(self, args: Any) -> None:
        """Applies a GEM_VA call to the map of GPU addresses."""
        va = canonical(args.va_address)
        if args.operation == lib.AMDGPU_VA_OP_UNMAP:
            self.maps = [one for one in self.maps if one[0] != va]
        elif args.operation != lib.AMDGPU_VA_OP_CLEAR:
            self.maps.append((va, args.map_size, args.handle, args.offset_in_bo))

    def excuse(self, va: int) -> None:
        """Accepts any value of the eight bytes at a GPU address, because they hold a time."""
        found = self.place(va)
        bo = self.bos.get(found[0]) if found else None
        if found and bo and bo.written and (view := self.view(bo)) is not None:
            at = found[1]
            bo.held[at : at + 8] = view[at : at + 8]

    def differs(self) -> str:
        """Returns a sentence about the first byte of a BO that differs from the recording, or "" if
        no byte differs.
        """
        for number, bo in self.bos.items():
            view = self.view(bo) if bo.written else None
            if view is None or view[:] == bo.held:
                continue
            now = view[:]
            at = next(i for i, (a, b) in enumerate(zip(now, bo.held, strict=True)) if a != b)
            at -= at % 4
            was = bo.held[at : at + 16].hex(" ", 4)
            there = now[at : at + 16].hex(" ", 4)
            return f"BO {number} byte {at:#x}: expected {was} as recorded, got {there}"
        return ""


def times(ibs: Any) -> list[int]:
    """Returns the addresses at which packets of these IBs write an 8-byte time."""
    addresses = []
    for ib in ibs:
        for packet in ib.packets():
            name, fields = packet.cls.NAME if packet.cls else "", packet.fields
            if name == "RELEASE_MEM" and fields["select"]["data"] in (
                DataSel.GPU_CLOCK,
                DataSel.SYSTEM_CLOCK,
            ):
                addresses.append(fields["addr"])
            elif name == "COPY_DATA" and fields["control"]["src_sel"] == CopySel.GPU_CLOCK:
                addresses.append(fields["dst"])
            elif name == "TIMESTAMP":
                addresses.append(fields["addr"])
    return addresses


def errno_name(rc: int) -> str:
    """Returns a result as text, with the name of an error: "0", "-22 (EINVAL)"."""
    return str(rc) if rc >= 0 else f"{rc} ({errno.errorcode.get(-rc, '?')})"
