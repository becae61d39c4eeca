"""Checks SPIR-V before a driver sees it: truncated modules and push constants crash some drivers.

The check covers only structure: magic, version, bound, every instruction's length, ids below the
bound, a GLCompute entry point of the wanted name with a workgroup size, no push constants, a closed
last function. Only a full validator finds all errors, which is why SPIR-V is opt-in.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from sparkle_drv.errors import ImageError

MAGIC = 0x07230203
_MOST_BOUND = 1 << 22
_ENTRY_POINT, _EXECUTION_MODE, _CAPABILITY, _MEMORY_MODEL = 15, 16, 17, 14
_TYPE_POINTER, _FUNCTION, _FUNCTION_END, _VARIABLE = 32, 54, 56, 59
_EXECUTION_MODE_ID, _DECORATE = 331, 71
_GL_COMPUTE, _LOCAL_SIZE, _LOCAL_SIZE_ID = 5, 17, 38
_PUSH_CONSTANT = 9
_BUILTIN, _WORKGROUP_SIZE = 11, 25
_KERNEL, _LINKAGE = 6, 5
_SHORTEST = {
    _ENTRY_POINT: 4,
    _EXECUTION_MODE: 3,
    _CAPABILITY: 2,
    _MEMORY_MODEL: 3,
    _TYPE_POINTER: 4,
    _FUNCTION: 5,
    _FUNCTION_END: 1,
    _VARIABLE: 4,
    _DECORATE: 3,
}
# For each opcode checked here: the position of the instruction's result id.
_RESULT = {_TYPE_POINTER: 1, _FUNCTION: 2, _VARIABLE: 2}


def is_spirv(blob: bytes) -> bool:
    """Returns whether the bytes begin like SPIR-V in either byte order."""
    return blob[:4] in (struct.pack("<I", MAGIC), struct.pack(">I", MAGIC))


def _words(blob: bytes, what: str) -> tuple[int, ...]:
    if len(blob) % 4 or len(blob) < 20:
        raise ImageError(f"{what}: expected a whole SPIR-V module, got {len(blob)} bytes")
    order = "<" if blob[:4] == struct.pack("<I", MAGIC) else ">"
    return struct.unpack(f"{order}{len(blob) // 4}I", blob)


def _instructions(words: tuple[int, ...], what: str) -> Iterator[tuple[int, tuple[int, ...]]]:
    at = 5
    while at < len(words):
        count, opcode = words[at] >> 16, words[at] & 0xFFFF
        if count == 0 or at + count > len(words):
            raise ImageError(
                f"{what}: the instruction at word {at} (opcode {opcode}) says {count} words, "
                f"{len(words) - at} are left"
            )
        if count < _SHORTEST.get(opcode, 1):
            raise ImageError(f"{what}: the instruction at word {at} (opcode {opcode}) is cut short")
        yield opcode, words[at + 1 : at + count]
        at += count


def _name(operands: tuple[int, ...], what: str) -> str:
    raw = struct.pack(f"<{len(operands)}I", *operands)
    text, end, _ = raw.partition(b"\0")
    if not end:
        raise ImageError(f"{what}: expected a zero byte after an entry point's name, got none")
    return text.decode(errors="replace")


def validated(blob: bytes, entry: str, what: str) -> bytes:
    """Returns the module in this machine's byte order. Raises ImageError with the first error
    found.
    """
    words = _words(blob, what)
    version, bound, schema = words[1], words[3], words[4]
    major, minor = version >> 16 & 0xFF, version >> 8 & 0xFF
    if version & 0xFF0000FF or major != 1 or minor > 6:
        raise ImageError(f"{what}: expected SPIR-V 1.0 to 1.6, got version word {version:#010x}")
    if not 0 < bound <= _MOST_BOUND or schema:
        raise ImageError(f"{what}: expected a valid id bound and schema 0, got {bound}, {schema}")
    entries: dict[str, int] = {}
    sized: set[int] = set()
    functions: set[int] = set()
    open_function = has_model = any_size = False
    for opcode, operands in _instructions(words, what):
        at = _RESULT.get(opcode)
        if at is not None and not 0 < operands[at - 1] < bound:
            raise ImageError(f"{what}: expected ids below {bound}, got {operands[at - 1]}")
        if opcode == _CAPABILITY and operands[0] in (_KERNEL, _LINKAGE):
            raise ImageError(
                f"{what}: expected a shader, got a module for OpenCL or for linking "
                f"(capability {operands[0]})"
            )
        if opcode == _MEMORY_MODEL:
            has_model = True
        elif opcode == _ENTRY_POINT and operands[0] == _GL_COMPUTE:
            entries[_name(operands[2:], what)] = operands[1]
        elif opcode in (_EXECUTION_MODE, _EXECUTION_MODE_ID) and operands[1] in (
            _LOCAL_SIZE,
            _LOCAL_SIZE_ID,
        ):
            if opcode == _EXECUTION_MODE and (len(operands) < 5 or 0 in operands[2:5]):
                raise ImageError(
                    f"{what}: expected a workgroup size of 1 or more, got {operands[2:5]}"
                )
            sized.add(operands[0])
        elif opcode == _DECORATE and operands[1:3] == (_BUILTIN, _WORKGROUP_SIZE):
            any_size = True
        elif (opcode == _TYPE_POINTER and operands[1] == _PUSH_CONSTANT) or (
            opcode == _VARIABLE and operands[2] == _PUSH_CONSTANT
        ):
            raise ImageError(f"{what}: expected uniforms with locations, got push constants")
        elif opcode in (_FUNCTION, _FUNCTION_END):
            if open_function is (opcode == _FUNCTION):
                raise ImageError(f"{what}: functions are nested or end where none began")
            open_function = opcode == _FUNCTION
            if open_function:
                functions.add(operands[1])
    if open_function or not has_model:
        raise ImageError(f"{what}: the module is truncated, or it has no memory model")
    if entry not in entries:
        there = ", ".join(sorted(entries)) or "none"
        raise ImageError(f"{what}: expected a compute entry point {entry!r}, got {there}")
    if entries[entry] not in functions:
        raise ImageError(f"{what}: the function of entry point {entry!r} is missing")
    if entries[entry] not in sized and not any_size:
        raise ImageError(f"{what}: entry point {entry!r} has no workgroup size")
    return struct.pack(f"={len(words)}I", *words)
