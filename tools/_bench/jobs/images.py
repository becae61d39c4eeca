"""The files that hold a user's kernels: FILE:ENTRY, and sources with -D names as macros.

compilers.py compiles most sources. GLSL is compiled by the driver when it loads the text. This
module therefore inserts the macros into the text. A `#line` makes the driver's messages name lines
of the user's file. Every other file is checked by the device. Called by user_kernel.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from _console.problems import UsageError

from . import compilers

if TYPE_CHECKING:
    import sparkle_drv as sp

GROUP_MACRO = "SPARKLE_GROUP_SIZE_"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VERSION = re.compile(r"^[ \t]*#[ \t]*version\b.*\n?", re.M)
# The lines between #version and the inserted macros: extensions and empty lines.
_EXTENSIONS = re.compile(r"(?:[ \t]*(?:#[ \t]*extension\b.*)?\n)*")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_PTX = re.compile(r"^\s*\.(version|target)\b", re.M)
_U32 = 1 << 32


def split_image(text: str) -> tuple[Path, str]:
    """Returns ("saxpy.so", "saxpy") for "saxpy.so:saxpy". Raises UsageError for another form or a
    missing file.
    """
    file, colon, entry = text.rpartition(":")
    if not colon or not file or not entry:
        raise UsageError(f"expected FILE:ENTRY, such as saxpy.so:saxpy, got {text!r}")
    if not Path(file).is_file():
        raise UsageError(f"no such file: {file}")
    return Path(file), entry


def check_name(name: str) -> None:
    """Raises UsageError unless a name of -D can be a macro: a C identifier that GLSL
    has not reserved.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"-D: expected a C identifier (letters, digits, _), got {name}")
    if name.lower().startswith("gl_") or "__" in name or name.startswith(GROUP_MACRO):
        raise UsageError(
            f"-D {name}: gl_, GL_, __ and {GROUP_MACRO} are reserved in names; choose another"
        )


def glsl(path: Path) -> str | None:
    """Returns the text of a GLSL source. None for any other file (ELF, SPIR-V, PTX, unreadable),
    which the loader checks.
    """
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return None
    code = _blanked(text)
    is_source = "\0" not in text and not _PTX.search(code) and re.search(r"\bvoid\s+main\b", code)
    return text if is_source else None


def with_macros(text: str, macros: Mapping[str, int]) -> str:
    """Returns the GLSL text with a #define for each macro after its #version and #extension lines.
    A #line after the macros keeps the line numbers of the user's file.

    A value beyond 32 bits is left out, because GLSL has no constant for it: such a size may be
    meant for --bytes alone.
    """
    lines = [f"#define {k} {_constant(v)}\n" for k, v in macros.items() if -(2**31) <= v < _U32]
    if not lines:
        return text
    code = _blanked(text)
    version = _VERSION.search(code)
    at = version.end() if version else 0
    between = _EXTENSIONS.match(code, at)
    at = between.end() if between else at
    head = text[:at]
    if head and not head.endswith("\n"):
        head += "\n"
    return f"{head}{''.join(lines)}#line {head.count(chr(10)) + 1}\n{text[at:]}"


def _blanked(text: str) -> str:
    """Returns the text with blanks in place of comments. Every other character keeps its place."""
    return _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def _constant(value: int) -> str:
    return f"({value})" if value < 0 else f"{value}u" if value >= 1 << 31 else str(value)


def load(
    path: str, entry: str, types: str, macros: Mapping[str, int], device: sp.Device
) -> sp.Kernel:
    """Loads the kernel on the device. Errors name the user's file."""
    import sparkle_drv as sp

    if compilers.language(Path(path)):
        made = str(compilers.compiled(Path(path), device.info, macros))
        try:
            return device.kernel(image=made, entry=entry, args=types)
        except sp.ImageError as error:
            raise sp.ImageError(str(error).replace(f"{made}: ", "").replace(made, path)) from error
    text = glsl(Path(path)) if macros else None
    if text is None:
        return device.kernel(image=path, entry=entry, args=types)
    source = with_macros(text, macros).encode()
    try:
        return device.kernel(image=source, entry=entry, args=types)
    except sp.ImageError as error:
        said = str(error).replace(f"image of {len(source)} bytes", path)
        raise sp.ImageError(said) from error
