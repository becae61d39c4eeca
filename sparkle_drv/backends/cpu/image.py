"""Checks a user's shared library before the loader maps it.

dlopen trusts the file: a truncated file ends in SIGBUS instead of an error. So the ELF header and
the program headers are read first. An image given as bytes goes into a memfd.
"""

from __future__ import annotations

import itertools
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

from sparkle_drv.errors import ImageError

_MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}


def _checked(image: bytes, what: str, entry: str) -> None:
    """Raises ImageError unless `image` is a complete shared library for this machine."""
    from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(BytesIO(image))
        machine, kind, bits = elf["e_machine"], elf["e_type"], elf.elfclass
        segments = [(s["p_offset"], s["p_filesz"], s["p_type"]) for s in elf.iter_segments()]
        type_of_entry = _symbol_type(elf, entry)
    except Exception as error:  # invalid bytes raise many kinds of exceptions inside the parser
        raise ImageError(f"{what}: expected a readable ELF file, got: {error}") from None
    wanted = _MACHINES.get(platform.machine())
    if kind != "ET_DYN" or bits != 64 or (wanted and machine != wanted):
        raise ImageError(
            f"{what}: expected a 64-bit shared library for {platform.machine()}, "
            f"got {kind} for {machine}"
        )
    if not any(t == "PT_LOAD" for _, _, t in segments):
        raise ImageError(f"{what}: expected a segment to load (PT_LOAD), got none")
    for offset, nbytes, _ in segments:
        if offset + nbytes > len(image):
            raise ImageError(
                f"{what}: truncated: expected {offset + nbytes} bytes, got {len(image)}"
            )
    if type_of_entry not in ("", "STT_FUNC", "STT_GNU_IFUNC", "STT_LOOS"):
        raise ImageError(f"{what}: {entry} is no function ({type_of_entry})")


def _symbol_type(elf: Any, entry: str) -> str:
    """Returns the type of a symbol that the library defines; "" if it defines no symbol of that
    name.
    """
    for segment in elf.iter_segments("PT_DYNAMIC"):
        for symbol in segment.iter_symbols():
            if symbol.name == entry and symbol["st_shndx"] != "SHN_UNDEF":
                return str(symbol["st_info"]["type"])
    return ""


_count = itertools.count()


def _unique_detour() -> str:
    """Returns a path from a folder to itself that differs at each call: ".//", "././/", and so on.

    For a *name* that it has loaded before, dlopen returns the old library. /proc/self/fd/N is such
    a name once Linux has reused the descriptor number N. The detour makes the name new, because it
    encodes a counter: each decimal digit d becomes d + 1 times "./" and one more slash.
    """
    return "".join("./" * (int(digit) + 1) + "/" for digit in str(next(_count)))


@contextmanager
def loadable(path: str, image: bytes, entry: str) -> Iterator[str]:
    """Yields a path for dlopen, valid inside the `with` block. Raises ImageError for a file that is
    no usable library, and OSError if the file cannot be read.

    The path is always that of a private copy. For a path that it has loaded before, dlopen would
    return the old library, although the file may have been rebuilt since.
    """
    blob = Path(path).read_bytes() if path else image
    _checked(blob, path or f"image of {len(image)} bytes", entry)
    fd = os.memfd_create("sparkle-kernel", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(fd), "wb") as file:
            file.write(blob)
        yield f"/proc/self/fd/{_unique_detour()}{fd}"
    finally:
        os.close(fd)
