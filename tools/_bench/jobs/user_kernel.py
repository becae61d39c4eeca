"""A user's own kernel as a job, without Python: FILE:ENTRY, --arg specs, sizes as arithmetic over
-D names.

    --arg in:f32[N]  out:f32[M,N]  inout:f32[N]   an array: filled, poisoned, or both
              read and written
    --arg f32=2.0    u32=N                        a value
    --arg @x.npy                                  an input with given content

Called by the kernel command. The kernel's language is the device's business (core's
`kernel(image=...)`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _console.problems import UsageError

from . import arith, fills, images, sweeps
from .axes import Point, label
from .job import TYPES, Arg, Job, Operand, Oracle, Scalar, rounded
from .sweeps import GROUP_AXIS, GROUP_NAMES, numbers, triple
from .user_reference import load_reference

_ARRAY = re.compile(r"(?P<way>in|out|inout):(?P<type>\w+)\[(?P<shape>[^\]]*)\]$")
_VALUE = re.compile(r"(?P<type>[a-z]\d+)=(?P<value>.+)$")
_ACCESS = {"in": "r", "out": "w", "inout": "rw"}
_EPS_ALLOWED = 100
LARGEST_NBYTES = 1 << 40
GROUP_SIZE = 256
ARG_HELP = "in:f32[N], out:f32[N], inout:f32[N], f32=2.0, u32=N or @x.npy; in the kernel's order"


@dataclass(frozen=True)
class Spec:
    """What the command line said; every size is still text."""

    image: Path
    entry: str
    args: tuple[str, ...]
    groups: str
    group_size: str = ""
    flops: str = "0"
    nbytes: str = ""
    reference: str = ""
    tolerance: float | None = None


def _threads(spec: Spec, point: Point, is_glsl: bool) -> tuple[int, int, int] | None:
    """The group size of a point; None: that which a GLSL source says itself."""
    swept = point.get(GROUP_AXIS)
    if isinstance(swept, str):
        return triple("--group-size", swept.replace("x", ","), {})
    if spec.group_size:
        return triple("--group-size", spec.group_size, numbers(point))
    return None if is_glsl else (GROUP_SIZE, 1, 1)


def make(spec: Spec, point: Point) -> Job:
    """The job of a kernel at a point. Raises UsageError for specs that cannot be read or do not
    fit together.
    """
    names = numbers(point)
    threads = _threads(spec, point, images.glsl(spec.image) is not None)
    macros = {k: v for k, v in point.items() if isinstance(v, int)}
    if threads:
        names |= dict(zip(GROUP_NAMES, threads, strict=True))
        if spec.group_size:
            macros |= {images.GROUP_MACRO + n: v for n, v in zip("XYZ", threads, strict=True)}
    args = tuple(_argument(text, at, names) for at, text in enumerate(spec.args))
    if not any(isinstance(arg, Operand) and arg.access != "r" for arg in args):
        raise UsageError(
            "--arg: a kernel without out: or inout: computes nothing that could be checked"
        )
    moved = sum(a.nbytes * len(a.access) for a in args if isinstance(a, Operand))
    types = " ".join(
        a.type + "*" if isinstance(a, Operand) else a.type
        for a in args
        if isinstance(a, Operand | Scalar)
    )
    written = [a.type for a in args if isinstance(a, Operand) and a.access != "r"]
    return Job(
        spec.entry,
        point,
        label(point),
        args,
        partial(images.load, str(spec.image), spec.entry, types, macros),
        spec.tolerance if spec.tolerance is not None else _tolerance(written),
        groups=triple("--groups", spec.groups, names),
        group_size=threads,
        flops=_cost("--flops", spec.flops, names),
        nbytes=_cost("--bytes", spec.nbytes, names) if spec.nbytes else float(moved),
        flop_type="f64" if "f64" in types else "f32",
        oracle=_oracle(spec.reference, args) if spec.reference else None,
        extra={"image": spec.image.name},
    )


def _cost(option: str, text: str, names: Mapping[str, int | float]) -> float:
    value = float(arith.evaluate(text, names))
    if value < 0:
        raise UsageError(f"{option} {text!r}: {value:g} is below 0")
    return value


def against(job: Job, spec: Spec, rivals: Sequence[str], point: Point) -> Job:
    """The job with a rival for each FILE:ENTRY: the same arguments, sizes and inputs. Raises
    UsageError.
    """
    made: list[Job] = []
    for text in rivals:
        image, entry = images.split_image(text)
        taken = {job.kernel, *(rival.kernel for rival in made)}
        names = [entry, f"{image.name}:{entry}"]
        names += [f"{names[1]}#{2 + i}" for i in range(len(taken))]
        name = next(name for name in names if name not in taken)
        rival = make(replace(spec, image=image, entry=entry), point)
        made.append(replace(rival, kernel=name, inputs_of=job.kernel))
    return replace(job, rivals=tuple(made))


def _argument(text: str, at: int, names: Mapping[str, int | float]) -> Arg:
    name = f"arg{at}"
    if text.startswith("@"):
        return _from_file(name, text[1:])
    if array := _ARRAY.fullmatch(text):
        kind = _type(array["type"], text)
        shape = tuple(
            arith.integer(part, names) for part in sweeps.split_outside_brackets(array["shape"])
        )
        if min(shape) < 1:
            raise UsageError(f"--arg {text}: its sizes are {shape}, 1 or more is wanted")
        operand = Operand(name, kind, _ACCESS[array["way"]], shape, fills.signed)
        if operand.nbytes > LARGEST_NBYTES:
            raise UsageError(f"--arg {text}: {operand.nbytes} bytes is more than any device has")
        return operand
    if value := _VALUE.fullmatch(text):
        kind = _type(value["type"], text)
        number = arith.evaluate(value["value"], names)
        if kind[0] != "f":
            number = arith.integer(value["value"], names)
        try:
            return Scalar(name, kind, rounded(number, kind))
        except UsageError as error:
            raise UsageError(f"--arg {text}: {error}") from None
    raise UsageError(
        f"--arg {text!r}: in:f32[N], out:f32[N], inout:f32[N], f32=2.0, u32=N or @x.npy is wanted"
    )


def _type(name: str, text: str) -> str:
    if name not in TYPES:
        raise UsageError(f"--arg {text}: unknown type {name!r}; known: {', '.join(TYPES)}")
    return name


def _from_file(name: str, path: str) -> Operand:
    try:
        values = np.ascontiguousarray(np.load(path, allow_pickle=False))
    except (OSError, ValueError) as error:
        raise UsageError(f"--arg @{path}: {error}") from error
    kinds = {np.dtype(dtype): kind for kind, dtype in TYPES.items()}
    if values.dtype not in kinds or not values.size:
        known = ", ".join(TYPES.values())
        raise UsageError(
            f"--arg @{path}: {values.dtype} of shape {values.shape}; "
            f"one of {known}, not empty, is wanted"
        )
    return Operand(
        name, kinds[values.dtype], "r", values.shape, lambda rng, shape, dtype, phase: values
    )


def _tolerance(written: Sequence[str]) -> float:
    """100 eps of the coarsest output type: what a sum of some thousand terms may be off by;
    --tolerance says better.
    """
    floats = [np.finfo(TYPES[kind]).eps for kind in written if kind[0] == "f"]
    return float(max(floats)) * _EPS_ALLOWED if floats else 0.0


def _oracle(reference: str, args: tuple[Arg, ...]) -> Oracle:
    """Calls the user's function with inputs and values in order (floats widened to float64); its
    result, or tuple of results, is what the outputs must hold, in order.
    """
    function = load_reference(reference)
    outputs = [a.name for a in args if isinstance(a, Operand) and a.access != "r"]
    taken = [
        a for a in args if isinstance(a, Scalar) or (isinstance(a, Operand) and "r" in a.access)
    ]

    def oracle(values: Mapping[str, Any]) -> dict[str, Any]:
        given = [_widened(values[a.name]) for a in taken]
        try:
            result = function(*given)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a user's function may raise anything, SystemExit too
            raise UsageError(f"--ref {reference}: {type(error).__name__}: {error}") from error
        results = result if isinstance(result, tuple) else (result,)
        if len(results) != len(outputs):
            raise UsageError(
                f"--ref {reference}: returned {len(results)} results for {len(outputs)} outputs"
            )
        return {name: np.asarray(value) for name, value in zip(outputs, results, strict=True)}

    return oracle


def _widened(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.astype(np.float64) if value.dtype.kind == "f" else value.copy()
    return value
