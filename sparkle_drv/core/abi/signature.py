"""Signatures of kernels: argument types, how they are packed, how far each pointer must reach.

Parses the manifest's arguments and the text form of user kernels ("f32* f32 u32"). Compiles extents
("m*k", "span(m, rsa, k, csa)") into the steps that native/core/extents.h computes. core/kernel.py
calls this.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparkle_drv._native import ffi, lib
from sparkle_drv.core.abi.elements import POINTERS
from sparkle_drv.core.abi.extent import steps_of
from sparkle_drv.core.abi.records import DISPATCH_HEAD

# The struct code of each scalar type. The struct module has none for bf16, so bf16 can only stand
# behind a pointer.
SCALARS = {"f32": "f", "f64": "d", "i32": "i", "u32": "I", "i64": "q", "u64": "Q"}
SCALARS |= {"u8": "B", "i8": "b", "u16": "H", "i16": "h", "f16": "e"}
ELEMENTS = (*SCALARS, "bf16")
_TYPE = rf"({'|'.join(ELEMENTS)})\b"
_NEXT = re.compile(rf"{_TYPE}\s*(\*?)\s*(?:(?!{_TYPE})([^\W\d]\w*))?[\s,]*")


@dataclass(frozen=True)
class Arg:
    """One argument of a kernel.

    `type` is such as "f32" or "f32*". `extent` is an expression for the number of elements behind a
    pointer.
    """

    name: str
    type: str
    access: str = "rw"
    optional: bool = False
    extent: str = ""

    @property
    def is_pointer(self) -> bool:
        return self.type.endswith("*")

    @property
    def is_written(self) -> bool:
        """True for an output of a manifest kernel; a user kernel does not declare its outputs."""
        return self.is_pointer and bool(self.extent) and "w" in self.access

    @property
    def nbytes(self) -> int:
        return 8 if self.is_pointer else self.element_nbytes

    @property
    def element_nbytes(self) -> int:
        return int(self.type.strip("bfiu*")) // 8


def parse_args(text: str) -> tuple[Arg, ...]:
    """Returns the arguments that a text such as "f32* x, u32 n" or "f32* u32" declares.

    Raises ValueError, which names an unknown type.
    """
    args: list[Arg] = []
    rest = text.strip(" ,")
    while rest:
        match = _NEXT.match(rest)
        if not match:
            raise ValueError(
                f"args: {rest.split()[0]!r} in {text!r} is not a type; known: "
                f"{', '.join(ELEMENTS)}, each also with *"
            )
        kind, star, _, name = match.groups()
        if not star and kind not in SCALARS:
            raise ValueError(f"args: {kind} in {text!r} can only be behind a pointer ({kind}*)")
        args.append(Arg(name or f"arg{len(args)}", kind + star))
        rest = rest[match.end() :]
    return tuple(args)


class Signature:
    """The arguments of a kernel and how they are packed.

    A dispatch record is DISPATCH_HEAD (core/abi/records.py), then the arguments in natural C
    alignment padded to 8 bytes, then the number of bytes behind each pointer. `native` is this
    layout for native code, a struct sp_signature. Raises ValueError for too many arguments.
    """

    def __init__(self, args: Sequence[Arg]) -> None:
        if len(args) > lib.SP_MAX_ARGS:
            raise ValueError(f"args: expected at most {lib.SP_MAX_ARGS} arguments, got {len(args)}")
        self.args = tuple(args)
        self.npointers = sum(a.is_pointer for a in args)
        codes = ["Q" if a.is_pointer else SCALARS[a.type] for a in args]
        ends = ["".join(codes[:i]) + f"0{code}" for i, code in enumerate([*codes, "Q"])]
        *self.offsets, self.args_nbytes = map(struct.calcsize, ends)
        self.args_struct = struct.Struct(ends[-1])
        self.record_nbytes = DISPATCH_HEAD.size + self.args_nbytes + 8 * self.npointers
        self._integers = {
            a.name: (offset, a.nbytes)
            for a, offset in zip(args, self.offsets, strict=True)
            if a.type in ("u32", "u64")
        }
        self.native = self._native()

    def __repr__(self) -> str:
        return "(" + ", ".join(f"{a.type} {a.name}" for a in self.args) + ")"

    def _native(self) -> Any:
        sig = ffi.new("struct sp_signature *")
        sig.nargs, sig.args_nbytes = len(self.args), self.args_nbytes
        for i, a in enumerate(self.args):
            c = sig.args[i]
            c.nbytes, c.offset, c.is_pointer = a.nbytes, self.offsets[i], a.is_pointer
            if not a.is_pointer:
                c.code = ord(SCALARS[a.type])
                continue
            c.is_optional, c.is_written = a.optional, a.is_written
            c.elements = POINTERS[a.type[:-1]]
            pointer = sig.pointers[sig.npointers]
            pointer.arg, pointer.offset = i, self.offsets[i]
            pointer.element_nbytes = a.element_nbytes
            sig.npointers += 1
            if a.extent:
                pointer.nsteps = self.compile(a.extent, sig, sig.nsteps)
                sig.nsteps += pointer.nsteps
        return sig

    def compile(self, text: str, sig: Any, at: int) -> int:
        """Writes the steps of the extent `text` into `sig` from step `at` on; returns their number.

        Raises the ValueError of `steps_of`, and ValueError for too many steps.
        """
        steps = steps_of(text, self._integers)
        if at + len(steps) > lib.SP_MAX_STEPS:
            most = lib.SP_MAX_STEPS
            raise ValueError(f"args: the extents of {self!r} need more than {most} steps")
        for i, step in enumerate(steps, at):
            sig.steps[i] = step
        return len(steps)
