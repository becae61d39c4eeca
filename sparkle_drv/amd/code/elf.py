"""Reads the parts of an AMD GPU ELF file that a loader needs, and checks every offset.

Like other loaders, this module reads only program headers and the dynamic table, because section
headers may be stripped or wrong. Nothing here knows kernels. pyelftools is not used, because it
trusts its files: for a damaged file it may raise any exception, or seek without bound. Here every
error is an ImageError, and the size of the file bounds time and memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from sparkle_drv.errors import ImageError

EM_AMDGPU, OSABI_HSA, ET_DYN = 224, 64, 3
PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_GNU_RELRO = 1, 2, 4, 0x6474E552
PF_X, PF_W, PF_R = 1, 2, 4
DT_NULL, DT_NEEDED, DT_PLTRELSZ, DT_HASH, DT_STRTAB, DT_SYMTAB = 0, 1, 2, 4, 5, 6
DT_RELA, DT_RELASZ, DT_RELAENT, DT_STRSZ, DT_SYMENT, DT_REL, DT_RELR = 7, 8, 9, 10, 11, 17, 36
MOST_SEGMENTS = 64
_NEEDS = {
    DT_NEEDED: "other libraries",
    DT_PLTRELSZ: "a procedure linkage table",
    DT_REL: "relocations without addends",
    DT_RELR: "packed relocations",
}

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_DYNAMIC = struct.Struct("<QQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QIIq")


@dataclass(frozen=True)
class Segment:
    """A program header. The file is known to have `filesz` bytes from `offset` on."""

    type: int
    flags: int
    offset: int
    vaddr: int
    filesz: int
    memsz: int
    align: int


@dataclass(frozen=True)
class ElfSymbol:
    """An entry of the dynamic symbol table. `name` is an offset in the string table."""

    name: int
    type: int  # symbol type: 1 is an object, 2 a function
    binding: int  # symbol binding: 2 is weak
    section: int  # index of the section; 0 if the symbol is undefined
    value: int
    size: int


@dataclass(frozen=True)
class Rela:
    """A relocation with its addend. `symbol` is an index in the symbol table."""

    offset: int
    type: int
    symbol: int
    addend: int


class Elf:
    """An ELF64 shared object for AMDGPU_HSA. Raises ImageError for any other file."""

    def __init__(self, image: bytes) -> None:
        self.image = image
        if len(image) < _HEADER.size:
            raise ImageError(
                f"expected an ELF file, whose header has 64 bytes, got {len(image)} bytes"
            )
        ident, kind, machine, _, _, phoff, _, self.flags, _, phentsize, phnum, *_ = (
            _HEADER.unpack_from(image)
        )
        if ident[:4] != b"\x7fELF":
            raise ImageError(f"expected an ELF file, got one that begins with {ident[:4].hex(' ')}")
        if ident[4:7] != b"\x02\x01\x01":
            raise ImageError("ELF: expected 64-bit little-endian, version 1")
        if machine != EM_AMDGPU:
            raise ImageError(f"ELF: got machine {machine}, expected {EM_AMDGPU} (AMDGPU)")
        if ident[7] != OSABI_HSA:
            raise ImageError(f"ELF: got OSABI {ident[7]}, expected {OSABI_HSA} (AMDGPU_HSA)")
        if kind != ET_DYN:
            what = {1: "an object file that was not linked (ld.lld -shared)"}.get(kind, "")
            raise ImageError(f"ELF: type {kind} is {what or 'not loaded'}, expected 3 (shared)")
        self.abi_version = ident[8]
        self.segments = tuple(self._segments(phoff, phentsize, phnum))
        self.loads = tuple(s for s in self.segments if s.type == PT_LOAD)
        self._dynamic = self._read_dynamic()

    def _segments(self, at: int, size: int, count: int) -> Iterator[Segment]:
        if not 0 < count <= MOST_SEGMENTS or size != _SEGMENT.size:
            raise ImageError(
                f"ELF: got {count} program headers of {size} bytes, "
                f"expected 1 to {MOST_SEGMENTS} of {_SEGMENT.size}"
            )
        self._inside(at, count * size, "the program headers")
        for i in range(count):
            kind, flags, offset, vaddr, _, filesz, memsz, align = _SEGMENT.unpack_from(
                self.image, at + i * size
            )
            if kind in (PT_LOAD, PT_DYNAMIC, PT_NOTE):
                self._inside(offset, filesz, f"segment {i}")
            yield Segment(kind, flags, offset, vaddr, filesz, memsz, align)

    def _inside(self, offset: int, nbytes: int, what: str) -> None:
        if offset + nbytes > len(self.image):
            raise ImageError(
                f"ELF: truncated: {what} would end at byte {offset + nbytes} of {len(self.image)}"
            )

    def of_type(self, kind: int) -> Iterator[Segment]:
        """Yields the program headers of type `kind`."""
        return (s for s in self.segments if s.type == kind)

    def bytes_at(self, vaddr: int, nbytes: int, what: str) -> bytes:
        """Returns the `nbytes` bytes that a segment loads at `vaddr`. Raises ImageError if no
        segment does.
        """
        for s in self.loads:
            if s.vaddr <= vaddr and vaddr + nbytes <= s.vaddr + s.filesz:
                at = s.offset + vaddr - s.vaddr
                return self.image[at : at + nbytes]
        raise ImageError(f"ELF: {what}, {nbytes} bytes at {vaddr:#x}, is in no loaded segment")

    def _read_dynamic(self) -> dict[int, int]:
        tags: dict[int, int] = {}
        for segment in self.of_type(PT_DYNAMIC):
            end = segment.offset + segment.filesz // _DYNAMIC.size * _DYNAMIC.size
            for tag, value in _DYNAMIC.iter_unpack(self.image[segment.offset : end]):
                if tag == DT_NULL:
                    break
                tags[tag] = value
        for tag, what in _NEEDS.items():
            if tag in tags:
                raise ImageError(
                    f"ELF: the file needs {what} (dynamic tag {tag}), which is not available"
                )
        return tags

    def _table(self, tag: int, entry_tag: int, size: int, what: str) -> int:
        given = self._dynamic.get(entry_tag, size)
        if given != size:
            raise ImageError(f"ELF: {what} has entries of {given} bytes, expected {size}")
        if tag not in self._dynamic:
            raise ImageError(f"ELF: there is no {what}")
        return self._dynamic[tag]

    def symbols(self) -> tuple[ElfSymbol, ...]:
        """The dynamic symbol table; relocations name its entries by index."""
        where = self._table(DT_SYMTAB, DT_SYMENT, _SYMBOL.size, "dynamic symbol table")
        if DT_HASH not in self._dynamic:
            raise ImageError(
                "ELF: expected a hash table (DT_HASH) with the number of symbols, got none"
            )
        head = self.bytes_at(self._dynamic[DT_HASH], 8, "the hash table")
        count = int.from_bytes(head[4:], "little")
        table = self.bytes_at(where, count * _SYMBOL.size, "the dynamic symbol table")
        return tuple(
            ElfSymbol(name, info & 15, info >> 4, section, value, nbytes)
            for name, info, _, section, value, nbytes in _SYMBOL.iter_unpack(table)
        )

    def strings(self) -> bytes:
        """The string table that holds the names of the symbols."""
        size = self._dynamic.get(DT_STRSZ, 0)
        return self.bytes_at(self._dynamic.get(DT_STRTAB, 0), size, "the string table")

    def find(self, name: str) -> ElfSymbol | None:
        """Returns the symbol of that name, or None if the object does not define it."""
        strings, wanted = self.strings(), name.encode() + b"\0"
        # Compares names inside the string table. Names may overlap there, so copies of all names
        # could take quadratic memory.
        return next(
            (s for s in self.symbols() if s.section and strings.startswith(wanted, s.name)), None
        )

    def relocations(self) -> tuple[Rela, ...]:
        """Returns the dynamic relocations in the order of the file."""
        if DT_RELA not in self._dynamic:
            return ()
        where = self._table(DT_RELA, DT_RELAENT, _RELA.size, "relocation table")
        size = self._dynamic.get(DT_RELASZ, 0)
        if size % _RELA.size:
            raise ImageError(f"ELF: {size} bytes of relocations are no multiple of {_RELA.size}")
        table = self.bytes_at(where, size, "the relocation table")
        return tuple(Rela(o, t, s, a) for o, t, s, a in _RELA.iter_unpack(table))

    def notes(self) -> Iterator[tuple[bytes, int, bytes]]:
        """Yields owner, type and content of every note."""
        for segment in self.of_type(PT_NOTE):
            at, end = segment.offset, segment.offset + segment.filesz
            while at + 12 <= end:
                namesz, descsz, kind = struct.unpack_from("<III", self.image, at)
                name_at = at + 12
                desc_at = name_at + (namesz + 3) // 4 * 4
                if desc_at + descsz > end:
                    raise ImageError(f"ELF: a note at byte {at} is longer than its segment")
                owner = self.image[name_at : name_at + namesz].rstrip(b"\0")
                yield owner, kind, self.image[desc_at : desc_at + descsz]
                at = desc_at + (descsz + 3) // 4 * 4
