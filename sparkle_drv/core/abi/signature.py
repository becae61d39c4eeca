"""What a kernel takes: argument types, how they are packed, how far each pointer must reach.

Parses the manifest's arguments and the text form of user kernels ("f32* f32 u32"), and compiles
extents ("m*k", "span(m, rsa, k, csa)") into the steps that native/core/extents.h computes.
Called by core/kernel.py.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkle_drv._native import ffi, lib
from sparkle_drv.core.abi.elements import of_pointer
from sparkle_drv.core.abi.extent import Extent
from sparkle_drv.core.abi.records import DISPATCH_HEAD

# struct code and size of each scalar type; half and byte types exist behind pointers only.
SCALARS = {
    "f32": ("f", 4),
    "f64": ("d", 8),
    "i32": ("i", 4),
    "u32": ("I", 4),
    "i64": ("q", 8),
    "u64": ("Q", 8),
}
ELEMENTS = {
    **{k: n for k, (_, n) in SCALARS.items()},
    "u8": 1,
    "i8": 1,
    "u16": 2,
    "i16": 2,
    "f16": 2,
    "bf16": 2,
}


@dataclass(frozen=True)
class Arg:
    """One argument; `type` is "f32" or "f32*", `extent` counts elements behind a pointer."""

    name: str
    type: str
    access: str = "rw"
    optional: bool = False
    extent: str = ""

    @property
    def is_pointer(self) -> bool:
        return self.type.endswith("*")

    @property
    def elements(self) -> int:
        """The element bits that a pointer takes, 0 for a scalar."""
        return of_pointer(self.type[:-1]) if self.is_pointer else 0

    @property
    def is_written(self) -> bool:
        """Known to be written: a manifest kernel's output. Of a user's pointer nothing is known."""
        return self.is_pointer and bool(self.extent) and "w" in self.access

    @property
    def nbytes(self) -> int:
        return 8 if self.is_pointer else SCALARS[self.type][1]

    @property
    def element_nbytes(self) -> int:
        return ELEMENTS[self.type.rstrip("*")]


def parse_args(text: str) -> tuple[Arg, ...]:
    """Arguments from "f32* x, u32 n" or "f32* u32"; ValueError names the type that is not known."""
    args: list[Arg] = []
    for i, part in enumerate(text.replace(",", " , ").replace("*", "* ").split()):
        if part == ",":
            continue
        if part == "*" and args and not args[-1].is_pointer:
            args[-1] = Arg(args[-1].name, args[-1].type + "*")
        elif part.rstrip("*") in ELEMENTS:
            args.append(Arg(f"arg{len(args)}", part))
        elif args and part.isidentifier() and args[-1].name == f"arg{len(args) - 1}" and i:
            args[-1] = Arg(part, args[-1].type)
        else:
            raise ValueError(
                f"args: {part!r} in {text!r} is no type; known: {', '.join(ELEMENTS)}, "
                "each also with *"
            )
    for arg in args:
        if not arg.is_pointer and arg.type not in SCALARS:
            raise ValueError(
                f"args: {arg.type} in {text!r} can only stand behind a pointer ({arg.type}*)"
            )
    return tuple(args)


def manifest_args(entries: Sequence[Mapping[str, Any]]) -> tuple[Arg, ...]:
    return tuple(Arg(**entry) for entry in entries)


class Signature:
    """Arguments with their packing.

    A dispatch record is DISPATCH_HEAD (core/abi/records.py), the arguments in natural C alignment
    padded to 8, then the bytes covered by each pointer. `native` says so to native code.
    """

    def __init__(self, args: Sequence[Arg]) -> None:
        if len(args) > lib.SP_MAX_ARGS:
            raise ValueError(f"args: {len(args)} arguments; at most {lib.SP_MAX_ARGS} are possible")
        self.args = tuple(args)
        self.npointers = sum(a.is_pointer for a in args)
        layout, self.offsets, self.args_nbytes = self._layout()
        self.args_struct = struct.Struct("=" + layout)
        self.record_nbytes = DISPATCH_HEAD.size + self.args_nbytes + 8 * self.npointers
        self._integers = {
            a.name: (offset, a.nbytes)
            for a, offset in zip(args, self.offsets, strict=True)
            if a.type in ("u32", "u64")
        }
        self.native = self._native()

    def __repr__(self) -> str:
        return "(" + ", ".join(f"{a.type} {a.name}" for a in self.args) + ")"

    def _layout(self) -> tuple[str, tuple[int, ...], int]:
        layout, offsets, at = "", [], 0
        for a in self.args:
            pad = -at % a.nbytes
            layout += "x" * pad + ("Q" if a.is_pointer else SCALARS[a.type][0])
            offsets.append(at + pad)
            at += pad + a.nbytes
        return layout + "x" * (-at % 8), tuple(offsets), at + -at % 8

    def _native(self) -> Any:
        sig = ffi.new("struct sp_signature *")
        sig.nargs, sig.args_nbytes = len(self.args), self.args_nbytes
        for i, a in enumerate(self.args):
            c = sig.args[i]
            c.nbytes, c.offset, c.is_pointer = a.nbytes, self.offsets[i], a.is_pointer
            if not a.is_pointer:
                c.code = ord(SCALARS[a.type][0])
                continue
            c.is_optional, c.is_written, c.elements = a.optional, a.is_written, a.elements
            pointer = sig.pointers[sig.npointers]
            pointer.arg, pointer.offset = i, self.offsets[i]
            pointer.element_nbytes = a.element_nbytes
            sig.npointers += 1
            if a.extent:
                pointer.nsteps = self.compile(a.extent, sig, sig.nsteps)
                sig.nsteps += pointer.nsteps
        return sig

    def compile(self, text: str, sig: Any, at: int) -> int:
        """Writes the steps of a text into those of `sig`, from `at` on; returns how many."""
        steps = Extent(text, self._integers).steps
        if at + len(steps) > lib.SP_MAX_STEPS:
            most = lib.SP_MAX_STEPS
            raise ValueError(f"args: the extents of {self!r} need more than {most} steps")
        for i, step in enumerate(steps, at):
            sig.steps[i] = step
        return len(steps)
