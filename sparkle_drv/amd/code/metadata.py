"""Reads what the compiler notes about a kernel: the MessagePack note NT_AMDGPU_METADATA, checked.

The keys are those of LLVM's AMDGPU usage guide for code objects v4 to v6. Only values that are
needed become data, each with its type and range checked. codeobject.py compares them with the
kernel descriptor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkle_drv.errors import ImageError

from .elf import Elf

NT_AMDGPU_METADATA = 32
MOST_ARGS, MOST_KERNARG = 4096, 1 << 20
# EI_ABIVERSION in the ELF header -> (code object version, amdhsa.version in the metadata note).
VERSIONS = {2: (4, (1, 1)), 3: (5, (1, 2)), 4: (6, (1, 2))}
U32 = (1 << 32) - 1


@dataclass(frozen=True)
class ArgNote:
    """One argument of a kernel: an entry of .args in the note."""

    name: str
    kind: str
    """.value_kind: "by_value", "global_buffer", "hidden_block_count_x"."""
    offset: int
    nbytes: int
    space: str
    """.address_space; "" if there is none."""
    type_name: str
    """.type_name, "float*" in OpenCL C; "" if the compiler leaves it out."""
    pointee_align: int


@dataclass(frozen=True)
class KernelNote:
    """One kernel: an entry of amdhsa.kernels in the note."""

    name: str
    symbol: str
    """The name of the kernel's descriptor, "saxpy.kd"."""
    kernarg_nbytes: int
    kernarg_align: int
    lds_nbytes: int
    scratch_nbytes: int
    wave: int
    sgprs: int
    vgprs: int
    sgpr_spills: int
    vgpr_spills: int
    max_group_size: int
    required_group_size: tuple[int, int, int] | None
    dynamic_stack: bool
    args: tuple[ArgNote, ...]


@dataclass(frozen=True)
class Note:
    """The metadata note of a code object. `target` is the processor's name. `printf` says whether
    any kernel prints.
    """

    target: str
    printf: bool
    kernels: Mapping[str, Any]
    """Entries by name, unchecked; `kernel` checks one."""

    def kernel(self, name: str) -> KernelNote:
        """Returns the checked entry of a kernel. For an unknown name the ImageError lists the names
        that exist.
        """
        if name not in self.kernels:
            names = sorted(self.kernels)
            there = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            raise ImageError(f"the code object has no kernel {name!r}; there is: {there or 'none'}")
        return _kernel(name, self.kernels[name])


def read(elf: Elf) -> tuple[int, Note]:
    """Returns the code object version and the note. Raises ImageError for another version or a
    missing note.
    """
    if elf.abi_version not in VERSIONS:
        known = ", ".join(f"{abi} (v{v})" for abi, (v, _) in VERSIONS.items())
        raise ImageError(
            f"code object ABI version {elf.abi_version} is not supported; {known} are: "
            "compile with -mcode-object-version=5"
        )
    version, wanted = VERSIONS[elf.abi_version]
    notes = [
        n for owner, kind, n in elf.notes() if owner == b"AMDGPU" and kind == NT_AMDGPU_METADATA
    ]
    if len(notes) != 1:
        raise ImageError(f"expected one metadata note (NT_AMDGPU_METADATA), got {len(notes)}")
    root = _unpacked(notes[0])
    said = _get(root, "amdhsa.version", list, "the note")
    if tuple(said) != wanted:
        raise ImageError(
            f"metadata: expected version {list(wanted)} in code object v{version}, got {said[:4]}"
        )
    target = _get(root, "amdhsa.target", str, "the note").rpartition("--")[2].split(":")[0]
    kernels: dict[str, Any] = {}
    for entry in _get(root, "amdhsa.kernels", list, "the note"):
        name = _get(_map(entry, "amdhsa.kernels"), ".name", str, "amdhsa.kernels")
        if name in kernels:
            raise ImageError(f"metadata: two kernels are called {name!r}")
        kernels[name] = entry
    return version, Note(target, bool(root.get("amdhsa.printf")), kernels)


def _unpacked(data: bytes) -> Mapping[str, Any]:
    import msgpack

    try:
        # The unpacker needs no limits: the length of the note bounds the lengths inside it, and the
        # unpacker's own stack bounds the depth of nesting.
        value = msgpack.unpackb(data, raw=False, strict_map_key=True)
    except Exception as error:  # for bad bytes msgpack raises several types
        raise ImageError(f"metadata: no readable MessagePack ({error})") from None
    return _map(value, "the note")


def _map(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ImageError(f"metadata: {where}: expected a map, got {type(value).__name__}")
    return value


def _get(entry: Mapping[str, Any], key: str, kind: type, where: str, default: Any = None) -> Any:
    value = entry.get(key, default)
    if type(value) is not kind:
        got = "nothing" if value is None else f"{value!r:.40}"
        raise ImageError(f"metadata: {where}: {key} is {got}, expected {kind.__name__}")
    return value


def _number(
    entry: Mapping[str, Any], key: str, where: str, most: int = U32, default: Any = None
) -> int:
    value: int = _get(entry, key, int, where, default)
    if not 0 <= value <= most:
        raise ImageError(f"metadata: {where}: {key} is {value}, expected 0 to {most}")
    return value


def _kernel(name: str, entry: Mapping[str, Any]) -> KernelNote:
    where = name[:80]

    def number(key: str, most: int = U32, default: Any = None) -> int:
        return _number(entry, key, where, most, default)

    raw = _get(entry, ".args", list, where, [])
    if len(raw) > MOST_ARGS:
        raise ImageError(f"metadata: {where}: {len(raw)} arguments, expected at most {MOST_ARGS}")
    wave = number(".wavefront_size")
    if wave not in (32, 64):
        raise ImageError(f"metadata: {where}: .wavefront_size is {wave}, expected 32 or 64")
    most = number(".max_flat_workgroup_size", 1024)
    if not most:
        raise ImageError(f"metadata: {where}: .max_flat_workgroup_size is 0, expected 1 to 1024")
    return KernelNote(
        name=name,
        symbol=_get(entry, ".symbol", str, where),
        kernarg_nbytes=number(".kernarg_segment_size", MOST_KERNARG),
        kernarg_align=_align(number(".kernarg_segment_align", 4096), where),
        lds_nbytes=number(".group_segment_fixed_size"),
        scratch_nbytes=number(".private_segment_fixed_size"),
        wave=wave,
        sgprs=number(".sgpr_count", 4096),
        vgprs=number(".vgpr_count", 4096),
        sgpr_spills=number(".sgpr_spill_count", default=0),
        vgpr_spills=number(".vgpr_spill_count", default=0),
        max_group_size=most,
        required_group_size=_required(entry, where, most),
        dynamic_stack=_get(entry, ".uses_dynamic_stack", bool, where, False),
        args=tuple(_arg(_map(a, f"{where}: .args"), f"{where}: argument {i}")
                   for i, a in enumerate(raw)),
    )  # fmt: skip


def _align(value: int, where: str) -> int:
    if value < 1 or value & (value - 1):
        raise ImageError(
            f"metadata: {where}: .kernarg_segment_align is {value}, expected a power of two"
        )
    return value


def _required(entry: Mapping[str, Any], where: str, most: int) -> tuple[int, int, int] | None:
    if ".reqd_workgroup_size" not in entry:
        return None
    size = _get(entry, ".reqd_workgroup_size", list, where)
    if len(size) != 3 or not all(type(n) is int and 1 <= n <= 1024 for n in size):
        raise ImageError(
            f"metadata: {where}: .reqd_workgroup_size is {size!r:.60}, expected three numbers of "
            "1 to 1024"
        )
    x, y, z = size
    if x * y * z > most:
        raise ImageError(
            f"metadata: {where}: .reqd_workgroup_size {size} has {x * y * z} threads, "
            f".max_flat_workgroup_size is {most}"
        )
    return x, y, z


def _arg(entry: Mapping[str, Any], where: str) -> ArgNote:
    return ArgNote(
        name=_get(entry, ".name", str, where, ""),
        kind=_get(entry, ".value_kind", str, where),
        offset=_number(entry, ".offset", where, MOST_KERNARG),
        nbytes=_number(entry, ".size", where, MOST_KERNARG),
        space=_get(entry, ".address_space", str, where, ""),
        type_name=_get(entry, ".type_name", str, where, ""),
        pointee_align=_number(entry, ".pointee_align", where, 1 << 16, 1),
    )
