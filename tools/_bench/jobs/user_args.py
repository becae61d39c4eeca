"""The arguments of a user's kernel, as --arg describes them.

    in:f32[N]      an array that the kernel reads, filled with random values
    out:f32[M,N]   an array that the kernel writes, filled with poison before the launch
    inout:f32[N]   an array that the kernel reads and writes, filled with random values
    f32=2.0    u32=N         a value
    @x.npy     bf16@x.npy    an input with the content of a file

Called by user_kernel.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from _console.problems import UsageError

from . import arith, fills, sweeps
from .fills import Array
from .job import SCALARS, TYPES, Arg, Operand, Scalar, rounded

_ARRAY = re.compile(r"(?P<way>in|out|inout):(?P<type>\w+)\[(?P<shape>[^\]]*)\]$")
_VALUE = re.compile(r"(?P<type>[a-z]+\d+)=(?P<value>.+)$")
_FILE = re.compile(r"(?P<type>[a-z]+\d+)?@(?P<path>.+)$")
_ACCESS = {"in": "r", "out": "w", "inout": "rw"}
LARGEST_NBYTES = 1 << 40
HELP = "in:f32[N], out:f32[N], inout:f32[N], f32=2.0, u32=N or @x.npy; in the kernel's order"


def argument(text: str, at: int, names: Mapping[str, int | float]) -> Arg:
    """Returns the kernel's argument number `at`, which the --arg option `text` describes. Sizes in
    `text` are arithmetic over `names`. Raises UsageError if `text` cannot be read.
    """
    name = f"arg{at}"
    if named := _FILE.fullmatch(text):
        return _from_file(name, text, named["type"], named["path"])
    if array := _ARRAY.fullmatch(text):
        kind = _type(array["type"], text)
        shape = tuple(
            arith.integer(part, names) for part in sweeps.split_outside_brackets(array["shape"])
        )
        if min(shape) < 1:
            raise UsageError(f"--arg {text}: expected sizes of 1 or more, got {shape}")
        operand = Operand(name, kind, _ACCESS[array["way"]], shape, fills.signed)
        if operand.nbytes > LARGEST_NBYTES:
            raise UsageError(f"--arg {text}: {operand.nbytes} bytes exceed every device's memory")
        return operand
    if value := _VALUE.fullmatch(text):
        kind = _type(value["type"], text)
        if kind not in SCALARS:
            known = ", ".join(SCALARS)
            raise UsageError(
                f"--arg {text}: expected a value whose type is one of {known}; "
                f"{kind} is for arrays only"
            )
        number = arith.evaluate(value["value"], names)
        if kind[0] != "f":
            number = arith.integer(value["value"], names)
        try:
            return Scalar(name, kind, rounded(number, kind))
        except UsageError as error:
            raise UsageError(f"--arg {text}: {error}") from None
    raise UsageError(
        f"--arg {text!r}: expected in:f32[N], out:f32[N], inout:f32[N], f32=2.0, u32=N or @x.npy"
    )


def _type(name: str, text: str) -> str:
    if name not in TYPES:
        raise UsageError(f"--arg {text}: unknown type {name!r}; known: {', '.join(TYPES)}")
    return name


def _from_file(name: str, text: str, kind: str | None, path: str) -> Operand:
    stored = FromFile(path, kind and TYPES[_type(kind, text)])
    values = stored.read()
    kinds = {np.dtype(dtype): kind for kind, dtype in TYPES.items() if kind != "bf16"}
    kind = kind or kinds.get(values.dtype)
    if kind is None or values.dtype != TYPES[kind] or not values.size:
        wanted = TYPES[kind] if kind else "one of " + ", ".join(kinds.values())
        raise UsageError(
            f"--arg {text}: expected a non-empty array of {wanted}, got {values.dtype} of shape "
            f"{values.shape}"
        )
    return Operand(name, kind, "r", values.shape, stored)


@dataclass(frozen=True)
class FromFile:
    """The fill of an input whose content is read from a .npy file."""

    path: str
    dtype: str | None

    def read(self) -> Array:
        """Returns the array of the file. Raises UsageError if the file cannot be read."""
        try:
            values = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise UsageError(f"--arg @{self.path}: cannot read the array: {error}") from error
        if self.dtype and values.dtype == np.dtype(
            "V2"
        ):  # numpy reads bf16 arrays of other tools as V2
            values = values.view(self.dtype)
        return np.asarray(values)

    def __call__(self, *_: object) -> Array:
        return self.read()
