"""Reads an amdhsa code object (.hsaco), checks it, and turns it into the data of a dispatch.

    code = load(blob, "scale", mach=targets.accepted("gfx1100"), args=("f32*", "f32*", "u32"))
    bo = <memory of code.image.nbytes, GPU address va, a multiple of code.image.align,
          readable and executable, writable too if code.image.writable>
    bo[:] = code.image.place(va)                    # relocated for va
    code.check_launch(group_size, shared)           # or ValueError with the reason
    kernarg = code.kernarg.pack(args, groups, group_size, shared=shared, static_lds=code.lds_nbytes)

    PGM_LO/HI       (va + code.entry) >> 8          (sign-extended addresses: mask to 48 bits)
    RSRC1, RSRC3    code.rsrc1, code.rsrc3          verbatim
    RSRC2           code.rsrc2_for(shared)          the descriptor's with LDS_SIZE put in
    TMPRING_SIZE    WAVESIZE = code.scratch_wavesize; the driver chooses WAVES
    NUM_THREAD      group_size                      must be code.required_group_size, if not None
    USER_DATA_0..   code.user_sgprs.values(kernarg=..., scratch=..., scratch_lane_nbytes=
                    code.scratch_nbytes, wave=code.wave, gfx=...)
    initiator       code.initiator                  SHADER_EN | FORCE_START_AT_000 (| CS_W32_EN)

`dispatch.py` writes exactly these values as an IB. If code.scratch_nbytes is not 0, scratch memory
has WAVES times code.scratch_wave_nbytes bytes (on gfx11 per shader engine). The address of scratch
memory goes to `user_sgprs.values` on gfx10.3, to COMPUTE_DISPATCH_SCRATCH_BASE on gfx11. Nothing
here allocates or submits.

The kernarg segment may be reused when the dispatch has ended. Its address must be a multiple of
code.kernarg.align. `code.image` holds the whole file, so kernels of one file may share an upload.

Every error in a file is an ImageError with the `name` of the file, what was found and what was
expected. elf.py reads the file, image.py lays it out, metadata.py reads the note. Arguments reach
a kernel in two ways, by memory (kernarg.py) and by registers (usersgprs.py).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sparkle_drv.amd.tables import regs, targets
from sparkle_drv.amd.tables.descriptors import KernelDescriptor
from sparkle_drv.amd.tables.granules import LDS_MOST, lds_units, vgpr_granule
from sparkle_drv.errors import ImageError
from sparkle_drv.types import Resources

from . import image as images
from . import kernarg as kernargs
from . import metadata, usersgprs
from .elf import Elf
from .image import Image
from .kernarg import Kernarg
from .usersgprs import UserSgprs

DESCRIPTOR_NBYTES = 64
# Fields that belong to the kernel driver or the debugger: LLVM's guide says that they "must be 0".
# No handler for exceptions exists here, so the enable bits of exceptions must be 0 too.
_ZERO1 = ("PRIORITY", "PRIV", "DEBUG", "BULKY")
_ZERO2 = ("TRAP_PRESENT", "EXCP_EN_MSB", "EXCP_EN", "LDS_SIZE")
# By level of hardware: bytes in one unit of TMPRING_SIZE.WAVESIZE, and the largest number of units.
_WAVESIZE = {10: (1024, 0x1FFF), 11: (256, 0x7FFF)}
INITIATOR = {"COMPUTE_SHADER_EN": 1, "FORCE_START_AT_000": 1}


@dataclass(frozen=True)
class CodeObject:
    """One kernel of a code object, ready to be uploaded and dispatched. It is immutable."""

    entry_name: str
    target: str
    """The target for which the kernel was compiled: "gfx1100" or "gfx11-generic"."""
    version: int
    """Version of the code object: 4, 5 or 6."""
    image: Image
    entry: int
    """Offset of the code in the image, in bytes; a multiple of 256."""
    wave: int
    """Threads of a wave: 32 or 64."""
    rsrc1: int
    rsrc2: int
    """As in the descriptor: LDS_SIZE is 0. See `rsrc2_for`."""
    rsrc3: int
    lds_nbytes: int
    """Local memory of a workgroup in bytes, without `shared`."""
    scratch_nbytes: int
    """Scratch memory of one lane in bytes; 0: none."""
    scratch_wave_nbytes: int
    """Scratch memory of one wave in bytes, rounded up to the hardware's unit."""
    scratch_wavesize: int
    """Scratch memory of one wave in units of TMPRING_SIZE.WAVESIZE."""
    kernarg: Kernarg
    user_sgprs: UserSgprs
    max_group_size: int
    """Largest number of threads in a workgroup, 1 to 1024."""
    required_group_size: tuple[int, int, int] | None
    """The only group size for which the kernel was compiled; None if it allows several."""
    vgprs: int
    sgprs: int
    spills: int
    """Registers that are spilled to memory, scalar and vector ones together."""

    def rsrc2_for(self, shared: int = 0) -> int:
        """Returns the value of COMPUTE_PGM_RSRC2 for `shared` bytes of dynamic local memory."""
        units = lds_units(self._lds(shared))
        return self.rsrc2 | regs.COMPUTE_PGM_RSRC2.encode(LDS_SIZE=units)

    @property
    def initiator(self) -> int:
        """The value of COMPUTE_DISPATCH_INITIATOR, which is the last dword of DISPATCH_DIRECT."""
        return regs.COMPUTE_DISPATCH_INITIATOR.encode(**INITIATOR, CS_W32_EN=int(self.wave == 32))

    @property
    def resources(self) -> Resources:
        """The resources that `Loaded` reports. Scratch memory counts as spilled, because it
        replaces registers.
        """
        return Resources(
            self.max_group_size, self.vgprs, self.lds_nbytes, self.scratch_nbytes, self.target
        )

    def check_launch(self, group_size: Sequence[int], shared: int = 0) -> None:
        """Raises ValueError for a group size that the kernel does not allow, or for too much local
        memory.
        """
        size = tuple(group_size)
        if self.required_group_size and size != self.required_group_size:
            wanted = self.required_group_size
            raise ValueError(f"group_size: {self.entry_name} needs {wanted}, got {size}")
        x, y, z = size
        if min(size) < 1 or x * y * z > self.max_group_size:
            raise ValueError(
                f"group_size: {size} has {x * y * z} threads, {self.entry_name} takes 1 to "
                f"{self.max_group_size}"
            )
        if shared < 0 or self._lds(shared) > LDS_MOST:
            raise ValueError(
                f"shared: {shared} bytes and the kernel's own {self.lds_nbytes} exceed {LDS_MOST}"
            )

    def _lds(self, shared: int) -> int:
        start = self.lds_nbytes
        if self.kernarg.dynamic_lds:
            start = -(-start // self.kernarg.dynamic_lds[1]) * self.kernarg.dynamic_lds[1]
        return start + shared


def load(
    blob: bytes,
    entry: str,
    *,
    mach: Collection[str],
    args: Sequence[str] | None = None,
    name: str = "",
) -> CodeObject:
    """Reads the kernel `entry` of a code object.

    `mach` has the targets whose code the device runs (`targets.accepted`). `args` has the types of
    the signature in order, such as "f32*" or "u32"; None skips their check. `name` stands in error
    messages. Raises ImageError for any wrong bytes.
    """
    if isinstance(mach, str):
        raise TypeError(f"mach: expected a collection of targets, such as ({mach!r},), got a str")
    try:
        return _load(blob, entry, mach, args)
    except ImageError as error:
        raise ImageError(f"{name or f'image of {len(blob)} bytes'}: {error}") from None


def kernels(blob: bytes) -> tuple[str, ...]:
    """Returns the names of the kernels in a code object, sorted. Raises ImageError for any wrong
    bytes.
    """
    return tuple(sorted(metadata.read(Elf(blob))[1].kernels))


def _load(blob: bytes, entry: str, mach: Collection[str], args: Sequence[str] | None) -> CodeObject:
    elf = Elf(blob)
    version, notes = metadata.read(elf)
    target = targets.mach_name(elf.flags)
    if target not in mach:
        raise ImageError(f"the code is made for {target}; this device runs {' or '.join(mach)}")
    if notes.target != target:
        raise ImageError(f"the metadata is for {notes.target!r}, the ELF header for {target}")
    note = notes.kernel(entry)
    image = images.lay_out(elf)
    at, descriptor = _descriptor(elf, note.symbol)
    gfx = targets.gfx_level(target)
    if gfx not in _WAVESIZE:
        raise ImageError(f"{target}: expected a kernel for gfx10.3 or gfx11")
    _agree(descriptor, note)
    _check_words(descriptor, note, gfx)
    code = at + _signed(descriptor["kernel_code_entry_byte_offset"])
    if code % 256 or not images.executable(elf, code):
        raise ImageError(
            f"kernel descriptor: expected code 256-byte aligned in a segment of code, got {code:#x}"
        )
    words = regs.COMPUTE_PGM_RSRC2.decode(descriptor["compute_pgm_rsrc2"], gfx)
    wave_nbytes, wavesize = _scratch(note, gfx)
    if note.lds_nbytes > LDS_MOST:
        raise ImageError(f"{note.lds_nbytes} bytes of local memory, expected at most {LDS_MOST}")
    return CodeObject(
        entry_name=entry,
        target=target,
        version=version,
        image=image,
        entry=image.offset(code),
        wave=note.wave,
        rsrc1=descriptor["compute_pgm_rsrc1"],
        rsrc2=descriptor["compute_pgm_rsrc2"],
        rsrc3=descriptor["compute_pgm_rsrc3"],
        lds_nbytes=note.lds_nbytes,
        scratch_nbytes=note.scratch_nbytes,
        scratch_wave_nbytes=wave_nbytes,
        scratch_wavesize=wavesize,
        kernarg=kernargs.lay_out(note, args, notes.printf),
        user_sgprs=usersgprs.lay_out(descriptor["properties"], words["USER_SGPR"]),
        max_group_size=note.max_group_size,
        required_group_size=note.required_group_size,
        vgprs=note.vgprs,
        sgprs=note.sgprs,
        spills=note.sgpr_spills + note.vgpr_spills,
    )


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _descriptor(elf: Elf, symbol: str) -> tuple[int, dict[str, Any]]:
    """Returns the kernel descriptor: its virtual address, and its fields."""
    entry = elf.find(symbol)
    if entry is None:
        raise ImageError(f"no symbol {symbol!r}: the kernel's descriptor is missing")
    if entry.type != 1 or entry.size != DESCRIPTOR_NBYTES or entry.value % 64:
        raise ImageError(
            f"{symbol!r} is no kernel descriptor: type {entry.type}, {entry.size} bytes at "
            f"{entry.value:#x}; expected an object of {DESCRIPTOR_NBYTES} bytes, 64-byte aligned"
        )
    raw = elf.bytes_at(entry.value, DESCRIPTOR_NBYTES, "the kernel descriptor")
    dwords = [int.from_bytes(raw[i : i + 4], "little") for i in range(0, len(raw), 4)]
    try:
        return entry.value, KernelDescriptor.decode(dwords)
    except ValueError as error:
        raise ImageError(str(error)) from None


def _agree(descriptor: dict[str, Any], note: metadata.KernelNote) -> None:
    """Raises ImageError if the descriptor and the metadata of a kernel contradict each other."""
    properties = descriptor["properties"]
    wave = 32 if properties["enable_wavefront_size32"] else 64
    private = descriptor["private_segment_fixed_size"]
    for what, described, noted in (
        ("group_segment_fixed_size", descriptor["group_segment_fixed_size"], note.lds_nbytes),
        ("private_segment_fixed_size", private, note.scratch_nbytes),
        ("kernarg_size", descriptor["kernarg_size"], note.kernarg_nbytes),
        ("wavefront size", wave, note.wave),
    ):
        if described != noted:
            raise ImageError(f"kernel descriptor: {what} is {described}, the metadata says {noted}")
    if properties["uses_dynamic_stack"] or note.dynamic_stack:
        raise ImageError(
            "the kernel uses a dynamic stack (recursion or calls by pointer): the code object does "
            "not say how much scratch memory the kernel needs, so no size would be safe"
        )
    if properties["kernarg_preload_length"]:
        raise ImageError("kernel descriptor: only gfx90a and gfx94x have kernarg preload")


def _check_words(descriptor: dict[str, Any], note: metadata.KernelNote, gfx: int) -> None:
    """Raises ImageError for values of RSRC1 to RSRC3 that a user's kernel must not have."""
    try:
        rsrc1 = regs.COMPUTE_PGM_RSRC1.decode(descriptor["compute_pgm_rsrc1"], gfx)
        rsrc2 = regs.COMPUTE_PGM_RSRC2.decode(descriptor["compute_pgm_rsrc2"], gfx)
        regs.COMPUTE_PGM_RSRC3.decode(descriptor["compute_pgm_rsrc3"], gfx)
    except ValueError as error:
        raise ImageError(f"kernel descriptor: wrong RSRC word: {error}") from None
    for word, fields, names in (("RSRC1", rsrc1, _ZERO1), ("RSRC2", rsrc2, _ZERO2)):
        for field in names:
            if fields[field]:
                raise ImageError(
                    f"kernel descriptor: {word}.{field}: expected 0, got {fields[field]}"
                )
    if rsrc2["TIDIG_COMP_CNT"] > 2:
        raise ImageError("kernel descriptor: RSRC2.TIDIG_COMP_CNT: expected 0 to 2, got 3")
    if note.scratch_nbytes and not rsrc2["SCRATCH_EN"]:
        raise ImageError(
            f"kernel descriptor: {note.scratch_nbytes} bytes of scratch, but RSRC2.SCRATCH_EN is 0"
        )
    granule = vgpr_granule(note.wave)
    if note.vgprs > (rsrc1["VGPRS"] + 1) * granule:
        raise ImageError(
            f"kernel descriptor: RSRC1.VGPRS gives {(rsrc1['VGPRS'] + 1) * granule} VGPRs, "
            f"the metadata says {note.vgprs}"
        )


def _scratch(note: metadata.KernelNote, gfx: int) -> tuple[int, int]:
    """Returns the size of a wave's scratch memory: in bytes, and in units of WAVESIZE."""
    unit, most = _WAVESIZE[gfx]
    units = -(-note.scratch_nbytes * note.wave // unit)
    if units > most:
        raise ImageError(
            f"expected at most {most * unit // note.wave} bytes of scratch memory per lane, "
            f"got {note.scratch_nbytes}"
        )
    return units * unit, units
