"""Code objects for tests: what clang made of codeobjects/features.cl, and ways to spoil it."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

import msgpack
from where import CODE_OBJECTS

from sparkle_drv.lowlevel import codeobject, elf

PHOFF, PHDR = 64, 56  # of a linker's output: program headers follow the header


@cache
def blob(version: int = 5, target: str = "gfx1100") -> bytes:
    return (CODE_OBJECTS / f"features.v{version}.{target}.hsaco").read_bytes()


def load(data: bytes, entry: str = "simple", target: str = "gfx1100", args: Any = None):
    return codeobject.load(data, entry, mach=(target,), args=args, name="x.hsaco")


def patched(data: bytes, at: int, layout: str, *values: int) -> bytes:
    """The bytes with some numbers put in."""
    out = bytearray(data)
    struct.pack_into("<" + layout, out, at, *values)
    return bytes(out)


def segment_at(data: bytes, kind: int, nth: int = 0) -> int:
    """Where the n-th program header of a type is."""
    count = struct.unpack_from("<H", data, 56)[0]
    found = [
        PHOFF + i * PHDR
        for i in range(count)
        if struct.unpack_from("<I", data, PHOFF + i * PHDR)[0] == kind
    ]
    return found[nth]


def file_offset(data: bytes, vaddr: int) -> int:
    """Where in the file a virtual address is."""
    s = next(s for s in elf.Elf(data).loads if s.vaddr <= vaddr < s.vaddr + s.filesz)
    return s.offset + vaddr - s.vaddr


def descriptor_at(data: bytes, entry: str = "simple") -> int:
    """Where in the file a kernel descriptor is."""
    return file_offset(data, elf.Elf(data).find(f"{entry}.kd").value)


def dynamic_at(data: bytes, tag: int) -> int:
    """Where in the file the value of a dynamic entry is."""
    at = elf.Elf(data).segments
    start = next(s.offset for s in at if s.type == elf.PT_DYNAMIC)
    while struct.unpack_from("<Q", data, start)[0] != tag:
        start += 16
    return start + 8


def with_note(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    """The object with its metadata changed: the new note stands at the end of the file."""
    (note,) = (content for _, kind, content in elf.Elf(data).notes() if kind == 32)
    root = msgpack.unpackb(note)
    changed = change(root)
    return with_raw_note(data, msgpack.packb(root if changed is None else changed))


def with_raw_note(data: bytes, content: bytes) -> bytes:
    data += bytes(-len(data) % 4)
    note = struct.pack("<III8s", 7, len(content), 32, b"AMDGPU\0\0") + content
    at = segment_at(data, elf.PT_NOTE)
    out = patched(data, at + 8, "Q", len(data))
    note += bytes(-len(note) % 4)
    return patched(out, at + 32, "Q", len(note)) + note


def kernel_note(root: dict[str, Any], entry: str = "simple") -> dict[str, Any]:
    return next(k for k in root["amdhsa.kernels"] if k[".name"] == entry)


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Some damage: bits, numbers that mean something, pieces moved, cut off or doubled."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        # Anywhere; the ELF and program headers; metadata, symbols and descriptors.
        low, high = rng.choice(((0, len(out)), (0, 640), (640, 9300), (7000, 9300)))
        at = rng.randrange(min(low, len(out) - 1), min(high, len(out)))
        match rng.randrange(6):
            case 0:
                out[at] ^= 1 << rng.randrange(8)
            case 1:
                out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            case 2:
                width = rng.choice((2, 4, 8))
                number = rng.choice((0, 1, len(out), 1 << 31, (1 << 64) - 1, rng.getrandbits(64)))
                out[at : at + width] = (number & ((1 << 8 * width) - 1)).to_bytes(width, "little")
            case 3:
                source, nbytes = rng.randrange(len(out)), rng.randrange(1, 64)
                out[at : at + nbytes] = out[source : source + nbytes]
            case 4:
                del out[at:]
                out += bytes(rng.choice((0, 0, 64, max(len(data) - at, 0))))
            case 5:
                out[at:at] = bytes(rng.randrange(1, 16))
        if not out:
            break
    return bytes(out)


HIDDEN = {".offset": 24, ".size": 4, ".value_kind": "hidden_block_count_x"}


def add_args(*entries: dict[str, Any], nbytes: int = 64) -> Callable[[bytes], bytes]:
    """Spoils an object: kernel `simple` has more arguments, in a segment of `nbytes`."""

    def change(data):
        data = patched(data, descriptor_at(data) + 8, "I", nbytes)

        def more(r):
            kernel_note(r)[".args"] += [dict(e) for e in entries]
            kernel_note(r)[".kernarg_segment_size"] = nbytes

        return with_note(data, more)

    return change
