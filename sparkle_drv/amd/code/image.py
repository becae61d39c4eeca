"""Makes the bytes to upload, an `Image`, from the segments and relocations of an ELF file.

In memory, the distances between segments are those of their virtual addresses. In the file, the
distances may differ. The relocation types R_AMDGPU_* are from LLVM's AMDGPU.def. Which types a
linked code object can have is from tinygrad and ROCr.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkle_drv.errors import ImageError

from .elf import PF_W, PF_X, PT_GNU_RELRO, Elf, ElfSymbol, Rela, Segment

PAGE = 4096
MOST_NBYTES = 64 << 20  # limit of a loaded image: only a broken header asks for more

# By R_AMDGPU_* number: name, width in bytes, whether the value is relative to the place where it is
# stored, whether the relocation has a symbol, right shift in bits.
_KINDS = {
    1: ("ABS32_LO", 4, False, True, 0),
    2: ("ABS32_HI", 4, False, True, 32),
    3: ("ABS64", 8, False, True, 0),
    5: ("REL64", 8, True, True, 0),
    10: ("REL32_LO", 4, True, True, 0),
    11: ("REL32_HI", 4, True, True, 32),
    13: ("RELATIVE64", 8, False, False, 0),
}


@dataclass(frozen=True)
class Fixup:
    """A number in the image that a relocation sets. The number is `value` plus the address of the
    image, or only `value` if `relative`. The result is shifted right by `shift` bits.
    """

    offset: int
    """Offset in the image, in bytes."""
    nbytes: int
    value: int
    """The number without the image's address, which is added unless `relative`."""
    relative: bool
    shift: int

    def bits(self, base: int) -> bytes:
        """Returns the bytes that the relocation stores when the image is at address `base`."""
        number = (self.value + (0 if self.relative else base)) >> self.shift
        return (number & ((1 << 8 * self.nbytes) - 1)).to_bytes(self.nbytes, "little")


@dataclass(frozen=True)
class Image:
    """The bytes to upload for one code object.

    `parts` has (offset in the image, bytes) for each segment; the rest is zeros. If `writable`, a
    segment stays writable after relocation, so the pages must be mapped for writing too.
    """

    nbytes: int
    """Size in bytes: whole pages."""
    align: int
    """Alignment of the address, in bytes."""
    low: int
    """The virtual address, in the file, of the first byte of the image."""
    writable: bool
    parts: tuple[tuple[int, bytes], ...] = field(repr=False)
    fixups: tuple[Fixup, ...] = field(repr=False)

    def place(self, base: int) -> bytearray:
        """Returns the image relocated to the address `base`. Raises ValueError for a misaligned
        address.
        """
        if base % self.align:
            raise ValueError(f"base: expected a multiple of {self.align:#x}, got {base:#x}")
        out = bytearray(self.nbytes)
        for at, data in self.parts:
            out[at : at + len(data)] = data
        for fixup in self.fixups:
            out[fixup.offset : fixup.offset + fixup.nbytes] = fixup.bits(base)
        return out

    def offset(self, vaddr: int) -> int:
        """Returns the offset in the image for a virtual address of the file."""
        return vaddr - self.low


def lay_out(elf: Elf) -> Image:
    """Makes the image of an ELF file. Raises ImageError for overlaps, absurd sizes and unknown
    relocations.
    """
    if not elf.loads:
        raise ImageError("ELF: expected a segment to load, got none")
    align = PAGE
    end = 0
    for i, s in enumerate(elf.loads):
        if s.memsz < s.filesz:
            raise ImageError(
                f"ELF: segment {i}: expected at most {s.memsz} bytes in the file, got {s.filesz}"
            )
        if s.vaddr < end:
            raise ImageError(f"ELF: segment {i} at {s.vaddr:#x} overlaps the previous one")
        end = s.vaddr + s.memsz
        if s.align > 1 and (s.align & (s.align - 1) or s.align > 1 << 20):
            raise ImageError(
                f"ELF: segment {i}: got an alignment of {s.align:#x}, expected a power of two up "
                "to 1 MiB"
            )
        align = max(align, s.align)
    low = elf.loads[0].vaddr & -align
    nbytes = -(-(end - low) // PAGE) * PAGE
    if nbytes > MOST_NBYTES:
        raise ImageError(f"ELF: {nbytes} bytes when loaded, expected at most {MOST_NBYTES}")
    parts = tuple((s.vaddr - low, elf.image[s.offset : s.offset + s.filesz]) for s in elf.loads)
    writable = any(s.flags & PF_W and s.memsz and not _relro(elf, s) for s in elf.loads)
    return Image(nbytes, align, low, writable, parts, _fixups(elf, low))


def _relro(elf: Elf, s: Segment) -> bool:
    """Returns whether all of a segment is read-only after relocation."""
    return any(
        r.vaddr <= s.vaddr and s.vaddr + s.memsz <= r.vaddr + r.memsz
        for r in elf.of_type(PT_GNU_RELRO)
    )


def executable(elf: Elf, vaddr: int) -> bool:
    """Returns whether the segments have code for at least one instruction at `vaddr`."""
    return any(
        s.flags & PF_X and s.vaddr <= vaddr and vaddr + 4 <= s.vaddr + s.filesz for s in elf.loads
    )


def _fixups(elf: Elf, low: int) -> tuple[Fixup, ...]:
    relocations = elf.relocations()
    symbols = elf.symbols() if relocations else ()
    return tuple(_fixup(elf, r, symbols, low) for r in relocations)


def _fixup(elf: Elf, r: Rela, symbols: tuple[ElfSymbol, ...], low: int) -> Fixup:
    if r.type not in _KINDS:
        raise ImageError(f"ELF: a relocation of type {r.type} at {r.offset:#x} is not supported")
    name, nbytes, relative, has_symbol, shift = _KINDS[r.type]
    where = f"ELF: relocation {name} at {r.offset:#x}"
    if not any(s.vaddr <= r.offset and r.offset + nbytes <= s.vaddr + s.memsz for s in elf.loads):
        raise ImageError(f"{where} is in no loaded segment")
    value = r.addend
    if has_symbol:
        if r.symbol >= len(symbols):
            raise ImageError(
                f"{where}: expected a symbol index below {len(symbols)}, got {r.symbol}"
            )
        symbol = symbols[r.symbol]
        if not 0 < symbol.section < 0xFF00:
            text = elf.strings()[symbol.name :][:80].split(b"\0")[0].decode(errors="replace")
            raise ImageError(f"{where}: {text!r} is defined elsewhere; link the whole code object")
        value += symbol.value
    # A difference of two addresses in the image does not depend on the base, so no base is added.
    return Fixup(r.offset - low, nbytes, value - (r.offset if relative else low), relative, shift)
