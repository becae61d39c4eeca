"""What the engine runs: one kernel with its operands, its costs and its oracle. Plain data.

workloads.py makes jobs of manifest kernels, user_kernel.py of users' own. bound.py puts a job on a
device. A job refers to no device, so it serves all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from _console.problems import UsageError

from . import fills
from .axes import Point
from .fills import Array, Fill

if TYPE_CHECKING:
    import sparkle_drv as sp

TYPES: Mapping[str, str] = {
    **{"f16": "float16", "f32": "float32", "f64": "float64", "bf16": "uint16"},
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
"""numpy's storage of each type. numpy has no bf16, whose bits are the upper half of an f32's."""
BF16_NAN = 0x7FC0
SCALARS = tuple(kind for kind in TYPES if kind != "bf16")
"""The types that a value argument may have. bf16 occurs only in arrays."""


@dataclass(frozen=True)
class Operand:
    """A pointer argument. `access` is r, w or rw; `fill` makes the content of an
    operand that is read.
    """

    name: str
    type: str
    access: str
    shape: tuple[int, ...]
    fill: Fill

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(TYPES[self.type])

    @property
    def made_as(self) -> np.dtype[Any]:
        """The dtype in which random content is made: float32 for bf16, which numpy lacks."""
        return np.dtype(np.float32) if self.type == "bf16" else self.dtype

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def content(self, rng: np.random.Generator, phase: int) -> Array:
        """Returns the operand's content, which `fill` makes, as the device stores it: bf16 as
        uint16.
        """
        made = self.fill(rng, self.shape, self.made_as, phase)
        if made.dtype == self.dtype:
            return np.ascontiguousarray(made)
        bits = np.ascontiguousarray(made, np.float32).view(np.uint32)
        # rounds to nearest even
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)

    def poison(self, rng: np.random.Generator) -> Array:
        """Returns the content of an output before a launch, as the device stores it: bf16 as
        uint16.
        """
        if self.type == "bf16":
            return np.full(self.shape, BF16_NAN, self.dtype)
        return fills.poison(self.nbytes, self.dtype, rng).view(self.dtype).reshape(self.shape)

    def numbers(self, stored: Array) -> Array:
        """Returns stored content as numbers: bf16 becomes float32, all other types stay."""
        if self.type != "bf16":
            return stored
        return (stored.astype(np.uint32) << 16).view(np.float32)


@dataclass(frozen=True)
class Scalar:
    """A kernel argument that is a number, not a pointer. It is already rounded to its type."""

    name: str
    type: str
    value: int | float


@dataclass(frozen=True)
class Absent:
    """An optional pointer argument of the kernel, for which this job passes no operand."""

    name: str


Arg = Operand | Scalar | Absent
Values = Mapping[str, Any]
Oracle = Callable[[Values], Mapping[str, Array]]
"""A function from (inputs and scalars by name) to the expected outputs by name, with floats as
float64."""
Invariant = Callable[[Values, Mapping[str, Array]], str | None]
"""A function from (inputs and scalars, outputs) to the text of an error, or None. For kernels
whose outputs only such a function can judge."""


@dataclass(frozen=True)
class Job:
    """One kernel at one point of its axes.

    flops and nbytes are per launch and in the problem's own terms: what must be computed and moved,
    whatever the kernel does. flops_output names an output whose first element holds the flops
    instead. `executed` is the flops of the algorithm that runs, if they are fewer than `flops`,
    otherwise 0; only the share of the roof uses it. flop_type names the roof of flops that counts
    ("f32", "f64"); None if only the roof of memory counts.

    `rivals` are measured in turns with the job. They use the inputs of the job whose `key` is
    `inputs_of` (versus.py). `lost` is the reason why a job must not be tried again: it crashed or
    hung.
    """

    kernel: str
    axes: Point
    label: str
    args: tuple[Arg, ...]
    load: Callable[[sp.Device], sp.Kernel]
    tolerance: float
    groups: tuple[int, ...] | None = None
    group_size: tuple[int, ...] | None = None
    flops: float = 0.0
    executed: float = 0.0
    nbytes: float = 0.0
    flop_type: str | None = None
    flops_output: str | None = None
    oracle: Oracle | None = None
    invariant: Invariant | None = None
    notes: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    rivals: tuple[Job, ...] = ()
    inputs_of: str = ""
    lost: str = ""

    @property
    def key(self) -> str:
        """The text on which the job's random inputs depend, beside the seed."""
        return self.inputs_of or f"{self.kernel} {sorted(self.axes.items())}"

    @property
    def operands(self) -> tuple[Operand, ...]:
        return tuple(arg for arg in self.args if isinstance(arg, Operand))

    @property
    def scalars(self) -> dict[str, int | float]:
        return {arg.name: arg.value for arg in self.args if isinstance(arg, Scalar)}

    @property
    def is_judged(self) -> bool:
        """True if the job has a reference for its outputs."""
        return bool(self.oracle or self.invariant)

    @property
    def mostly_reads(self) -> bool:
        """True if the job writes less than an eighth of the bytes that it touches."""
        written = sum(operand.nbytes for operand in self.operands if "w" in operand.access)
        return bool(self.footprint) and 8 * written < self.footprint

    @property
    def footprint(self) -> int:
        """The bytes of all operands."""
        return sum(operand.nbytes for operand in self.operands)


def rounded(value: float, type_name: str) -> int | float:
    """Returns a scalar as the kernel will receive it. Raises UsageError when the value does not fit
    the type.
    """
    kind = np.dtype(TYPES[type_name])
    if kind.kind == "f":
        least, most = float(np.finfo(kind).min), float(np.finfo(kind).max)
    else:
        least, most = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    if not least <= value <= most:
        raise UsageError(f"{value} does not fit {type_name}")
    number: int | float = kind.type(value).item()
    return number
