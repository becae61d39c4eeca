"""The kernel-argument segment: the offset of each argument, and the values that the driver adds.

Explicit arguments are compared with the kernel's signature. In a command record they have the
natural alignment of C, as in the segment that the compiler expects. So they are copied unchanged.
Hidden arguments are those that the compiler asks the driver for. Their offsets come from the
metadata, never from a table. Their meanings are those of LLVM's AMDGPU usage guide, checked on
output of clang 19.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkle_drv.errors import ImageError

from .metadata import ArgNote, KernelNote

_SIZES = {"f32": 4, "f64": 8, "i32": 4, "u32": 4, "i64": 8, "u64": 8}
_SIZES |= {"f16": 2, "i16": 2, "u16": 2, "i8": 1, "u8": 1}
# Types of OpenCL C that .type_name may have: kind of number (f or i) and size in bytes. A signature
# must agree with these types. "void" and char are not here, because they fit every signature.
_NAMED = {
    "float": ("f", 4), "double": ("f", 8), "half": ("f", 2), "int": ("i", 4), "uint": ("i", 4),
    "long": ("i", 8), "ulong": ("i", 8), "short": ("i", 2), "ushort": ("i", 2),
}  # fmt: skip
_ELEMENTS = {
    **{name: (name[0].replace("u", "i"), size) for name, size in _SIZES.items()},
    "bf16": ("i", 2),
}

# Hidden arguments, each with its size in bytes. FILLED get a value. ZERO get 0, because what they
# point to does not exist here. A kernel that follows such a pointer reads address 0 and is stopped.
FILLED = {
    **{f"hidden_block_count_{a}": 4 for a in "xyz"}, **{f"hidden_group_size_{a}": 2 for a in "xyz"},
    **{f"hidden_remainder_{a}": 2 for a in "xyz"}, "hidden_grid_dims": 2,
    "hidden_dynamic_lds_size": 4,
}  # fmt: skip
ZERO = {
    **{f"hidden_global_offset_{a}": 8 for a in "xyz"}, "hidden_printf_buffer": 8,
    "hidden_hostcall_buffer": 8, "hidden_multigrid_sync_arg": 8, "hidden_heap_v1": 8,
    "hidden_default_queue": 8, "hidden_completion_action": 8, "hidden_private_base": 4,
    "hidden_shared_base": 4, "hidden_queue_ptr": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Explicit:
    """An explicit argument, which the caller gives."""

    name: str
    """The argument's name; "" if the compiler leaves it out."""
    pointer: bool
    offset: int
    nbytes: int
    type_name: str
    """The type in OpenCL C, "float*"; "" if unknown."""


@dataclass(frozen=True)
class Kernarg:
    """The layout of the kernel-argument segment."""

    nbytes: int
    align: int
    explicit: tuple[Explicit, ...]
    args_nbytes: int
    """Bytes of packed arguments, without padding at the end."""
    copies: tuple[tuple[int, int, int], ...]
    """(from, to, nbytes): where packed arguments go. It is only (0, 0, args_nbytes), except for
    kernels with a `__local` pointer among their arguments."""
    hidden: dict[str, tuple[int, int]]
    """(offset, nbytes) of each hidden argument whose value is not 0."""
    dynamic_lds: tuple[int, int] | None
    """(offset, alignment) of a `__local` pointer among the arguments. It gets the offset of the
    dynamic part in the workgroup's memory. The signature does not have it."""

    def pack(
        self,
        args: bytes,
        groups: Sequence[int],
        group_size: Sequence[int],
        *,
        shared: int = 0,
        static_lds: int = 0,
    ) -> bytes:
        """Returns the `nbytes` bytes of the kernarg segment for one launch.

        `args` has the arguments as a command record has them, perhaps with padding at the end.
        `groups` counts workgroups, all of them full. `shared` is the dynamic local memory in bytes,
        `static_lds` the local memory that the kernel itself declares. Raises ValueError if `args`
        is too short.
        """
        if len(args) < self.args_nbytes:
            raise ValueError(f"args: expected {self.args_nbytes} bytes, got {len(args)}")
        out = bytearray(self.nbytes)
        for source, target, nbytes in self.copies:
            out[target : target + nbytes] = args[source : source + nbytes]
        values = {**self._grid(groups, group_size), "hidden_dynamic_lds_size": shared}
        for name, (offset, nbytes) in self.hidden.items():
            out[offset : offset + nbytes] = values[name].to_bytes(nbytes, "little")
        if self.dynamic_lds:
            offset, align = self.dynamic_lds
            out[offset : offset + 4] = (-(-static_lds // align) * align).to_bytes(4, "little")
        return bytes(out)

    def _grid(self, groups: Sequence[int], group_size: Sequence[int]) -> dict[str, int]:
        # Every group is full, so hidden_remainder_* are 0. hidden_grid_dims counts the axes up to
        # the last one of size above 1.
        sizes = [g * s for g, s in zip(groups, group_size, strict=True)]
        dims = max((i + 1 for i, n in enumerate(sizes) if n > 1), default=1)
        values = {"hidden_grid_dims": dims}
        for axis, count, size in zip("xyz", groups, group_size, strict=True):
            values[f"hidden_block_count_{axis}"] = count
            values[f"hidden_group_size_{axis}"] = size
            values[f"hidden_remainder_{axis}"] = 0
        return values


def lay_out(note: KernelNote, args: Sequence[str] | None, printf: bool) -> Kernarg:
    """Returns the layout of a kernel's arguments. If `args` is given, checks the arguments against
    these types of a signature ("f32*", "u32"). `printf` says whether any kernel of the file prints.
    If so, raises ImageError for a kernel with a printf buffer.
    """
    explicit: list[Explicit] = []
    hidden: dict[str, tuple[int, int]] = {}
    local: ArgNote | None = None
    taken = 0
    for i, a in enumerate(note.args):
        where = f"argument {i} ({a.kind})" if not a.name else f"argument {i} {a.name!r} ({a.kind})"
        if a.kind != "hidden_none" and a.offset < taken:
            raise ImageError(f"metadata: {where} at {a.offset} overlaps the previous one")
        if a.offset + a.nbytes > note.kernarg_nbytes:
            raise ImageError(
                f"metadata: {where} ends at byte {a.offset + a.nbytes} of a kernarg segment of "
                f"{note.kernarg_nbytes}"
            )
        taken = max(taken, a.offset + a.nbytes)
        if a.kind.startswith("hidden_"):
            _hide(a, where, hidden, printf)
        elif a.kind == "dynamic_shared_pointer":
            if local or a.nbytes != 4:
                raise ImageError(
                    f"metadata: {where}: expected at most one __local pointer, of 4 bytes"
                )
            local = a
        else:
            explicit.append(_explicit(a, where))
    if args is not None:
        _compare(explicit, local, args)
    copies = _copies(explicit, local)
    end = max((source + nbytes for source, _, nbytes in copies), default=0)
    dynamic = (local.offset, max(local.pointee_align, 1)) if local else None
    return Kernarg(
        note.kernarg_nbytes, note.kernarg_align, tuple(explicit), end, copies, hidden, dynamic
    )


def _copies(
    explicit: Sequence[Explicit], local: ArgNote | None
) -> tuple[tuple[int, int, int], ...]:
    """Returns (offset among the packed arguments, offset in the kernarg segment, bytes) of each
    range of bytes to copy. The packed arguments omit `__local` pointers, for which the kernarg
    segment has space.
    """
    if not local:
        end = max((e.offset + e.nbytes for e in explicit), default=0)
        return ((0, 0, end),) if end else ()
    copies, at = [], 0
    for e in explicit:
        at += -at % e.nbytes
        copies.append((at, e.offset, e.nbytes))
        at += e.nbytes
    return tuple(copies)


def _hide(a: ArgNote, where: str, hidden: dict[str, tuple[int, int]], printf: bool) -> None:
    if a.kind == "hidden_none":
        return
    size = FILLED.get(a.kind, ZERO.get(a.kind))
    if size is None:
        raise ImageError(f"metadata: {where} is unknown, so this driver has no value for it")
    if a.nbytes != size:
        raise ImageError(f"metadata: {where} has {a.nbytes} bytes, expected {size}")
    if a.kind in hidden:
        raise ImageError(f"metadata: {where} occurs twice")
    if printf and a.kind == "hidden_printf_buffer":
        raise ImageError(
            "the kernel uses printf (amdhsa.printf), but no output would appear: leave printf out"
        )
    if a.kind in FILLED:
        hidden[a.kind] = (a.offset, a.nbytes)


def _explicit(a: ArgNote, where: str) -> Explicit:
    if a.kind == "global_buffer":
        if a.nbytes != 8 or a.space not in ("", "global", "constant", "generic"):
            raise ImageError(
                f"metadata: {where}: {a.nbytes} bytes in address space {a.space!r}; pointers have "
                "8 and point to global, constant or generic memory"
            )
        return Explicit(a.name, True, a.offset, 8, a.type_name)
    if a.kind != "by_value" or not a.nbytes:
        raise ImageError(f"metadata: {where}: only scalars and pointers are supported")
    return Explicit(a.name, False, a.offset, a.nbytes, a.type_name)


def _compare(explicit: Sequence[Explicit], local: ArgNote | None, args: Sequence[str]) -> None:
    """Raises ImageError unless the kernel takes arguments of the types `args`, in this order, at
    the offsets that they would have in a C struct.
    """
    if len(explicit) != len(args):
        raise ImageError(
            f"the kernel takes {len(explicit)} arguments, the signature has {len(args)}"
        )
    at = 0
    for i, (e, kind) in enumerate(zip(explicit, args, strict=True)):
        nbytes = 8 if kind.endswith("*") else _SIZES[kind]
        if local and local.offset == at + -at % 4 < e.offset:
            at = local.offset + local.nbytes
        at += -at % nbytes
        has = "a pointer" if e.pointer else f"{e.nbytes} bytes by value"
        kernel_has = f"argument {i}{f' {e.name!r}' if e.name else ''}: the kernel has {has}"
        if e.pointer != kind.endswith("*") or e.nbytes != nbytes:
            raise ImageError(f"{kernel_has}, the signature has {kind} as the type of this argument")
        if e.offset != at:
            raise ImageError(f"{kernel_has} at offset {e.offset}, the signature has {kind} at {at}")
        named = _NAMED.get(e.type_name.rstrip("*"))
        pointers = e.type_name.endswith("*"), e.pointer
        if named and pointers[0] == pointers[1] and named != _ELEMENTS[kind.rstrip("*")]:
            raise ImageError(
                f"argument {i}: the kernel has {e.type_name}, the signature has {kind}"
            )
        at += nbytes
