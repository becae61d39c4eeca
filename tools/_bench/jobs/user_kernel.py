"""Makes a job of a user's own kernel, without Python: FILE:ENTRY, --arg specs, and sizes over -D
names. Also makes its rivals, which --vs names.

images.py and the device handle the kernel's language. Called by the kernel command.
"""

from __future__ import annotations

import getopt
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from _console.problems import UsageError

from . import arith, compilers, images, user_args
from .axes import Point, assignments, label
from .job import Arg, Job, Operand, Scalar
from .sweeps import GROUP_AXIS, GROUP_NAMES, check_define, numbers, shortened, triple
from .user_reference import Reference

_EPS_ALLOWED = {
    "f64": 100 * 2**-52, "f32": 100 * 2**-23, "f16": 4 * 2**-10, "bf16": 4 * 2**-7
}  # fmt: skip
"""The tolerance of an output of each type. A sum of some thousand terms loses 100 eps. In 16
bits that would be a whole digit; kernels that add up in f32 stay within four eps."""
GROUP_SIZE = 256
_OPTION = re.compile(r"\s(?=-D|--groups\b|--group-size\b)")


@dataclass(frozen=True)
class Spec:
    """A kernel as the command line describes it. Sizes and costs are texts, not yet evaluated."""

    image: Path
    entry: str
    args: tuple[str, ...]
    groups: str
    group_size: str = ""
    flops: str = "0"
    nbytes: str = ""
    reference: str = ""
    tolerance: float | None = None

    @property
    def name(self) -> str:
        return f"{self.image.name}:{self.entry}"


@dataclass(frozen=True)
class Rival:
    """A kernel of --vs with its own options. An option that was not given is "" or {}."""

    image: Path
    entry: str
    groups: str = ""
    group_size: str = ""
    defines: Mapping[str, str] = field(default_factory=dict)


def rival(text: str) -> Rival:
    """Reads a --vs option, such as "FILE:ENTRY --groups N/512 --group-size 128 -D BLOCK=128".

    Raises UsageError if the file is missing or an option cannot be read.
    """
    image, *rest = _OPTION.split(text, maxsplit=1)
    try:
        found, behind = getopt.getopt(shlex.split("".join(rest)), "D:", ["groups=", "group-size="])
    except (getopt.GetoptError, ValueError) as error:
        raise UsageError(f"--vs {text!r}: cannot read the options: {error}") from None
    if behind:
        raise UsageError(f"--vs {text!r}: expected -D, --groups or --group-size, got {behind[0]!r}")
    given = dict(found)
    defines = assignments((value for name, value in found if name == "-D"), "--vs: -D")
    for name in defines:
        check_define(name)
    path, entry = images.split_image(image.strip())
    groups, group_size = given.get("--groups", ""), given.get("--group-size", "")
    return Rival(path, entry, groups, group_size, defines)


def make(spec: Spec, point: Point, args: tuple[Arg, ...] = ()) -> Job:
    """Returns the job of a kernel at a point. `args`, if given, replace the arguments in `spec`.

    Raises UsageError for options that cannot be read or contradict each other.
    """
    names = numbers(point)
    threads = _threads(spec, point)
    macros = numbers(point)
    if threads:
        names |= dict(zip(GROUP_NAMES, threads, strict=True))
        if spec.group_size or compilers.language(spec.image):
            macros |= {images.GROUP_MACRO + n: v for n, v in zip("XYZ", threads, strict=True)}
    args = args or tuple(user_args.argument(text, at, names) for at, text in enumerate(spec.args))
    if not any(isinstance(arg, Operand) and arg.access != "r" for arg in args):
        raise UsageError(
            "--arg: expected an out: or inout: argument; without it there is no result to check"
        )
    moved = sum(a.nbytes * len(a.access) for a in args if isinstance(a, Operand))
    types = " ".join(
        a.type + "*" if isinstance(a, Operand) else a.type
        for a in args
        if isinstance(a, Operand | Scalar)
    )
    written = [a.type for a in args if isinstance(a, Operand) and a.access != "r"]
    return Job(
        spec.name,
        point,
        label(point),
        args,
        partial(images.load, str(spec.image), spec.entry, types, macros),
        spec.tolerance if spec.tolerance is not None else _tolerance(written),
        groups=triple("--groups", spec.groups, names),
        group_size=threads,
        flops=_cost("--flops", spec.flops, names),
        nbytes=_cost("--bytes", spec.nbytes, names) if spec.nbytes else float(moved),
        flop_type=_flop_type({a.type for a in args if isinstance(a, Operand | Scalar)}),
        oracle=Reference(spec.reference, args) if spec.reference else None,
        extra={"image": spec.image.name},
    )


def _threads(spec: Spec, point: Point) -> tuple[int, int, int] | None:
    """Returns the group size of a point. None: the GLSL source sets the size."""
    swept = point.get(GROUP_AXIS)
    if isinstance(swept, str):
        return triple("--group-size", swept.replace("x", ","), {})
    if spec.group_size:
        return triple("--group-size", spec.group_size, numbers(point))
    is_glsl = not compilers.language(spec.image) and images.glsl(spec.image) is not None
    return None if is_glsl else (GROUP_SIZE, 1, 1)


def _cost(option: str, text: str, names: Mapping[str, int | float]) -> float:
    value = float(arith.evaluate(text, names))
    if value < 0:
        raise UsageError(f"{option} {text!r}: {value:g} is below 0")
    return value


def against(job: Job, spec: Spec, rivals: Sequence[Rival], point: Point) -> Job:
    """Returns the job with its rivals. They have the same arguments and inputs, but each has its
    own grid and macros. Raises UsageError as `make` does.
    """
    made: list[Job] = []
    for one in rivals:
        own = _own_point(one, point)
        its = replace(
            spec,
            image=one.image,
            entry=one.entry,
            groups=one.groups or spec.groups,
            group_size=one.group_size or spec.group_size,
        )
        taken = {job.kernel, *(other.kernel for other in made)}
        names = [its.name, *(f"{its.name}#{2 + i}" for i in range(len(taken)))]
        name = next(name for name in names if name not in taken)
        found = make(its, own, job.args)
        made.append(
            replace(found, kernel=name, inputs_of=job.key, flops=job.flops, nbytes=job.nbytes)
        )
    return replace(job, rivals=tuple(made))


def _own_point(one: Rival, point: Point) -> Point:
    """Returns a rival's point. Its -D values are arithmetic over the names of the job's point."""
    known = numbers(point)
    own = {**point, **{name: arith.integer(text, known) for name, text in one.defines.items()}}
    if one.group_size:
        own[GROUP_AXIS] = shortened(triple("--group-size", one.group_size, numbers(own)))
    return own


def _tolerance(written: Sequence[str]) -> float:
    """Returns --tolerance if it was given, otherwise the tolerance of the coarsest output type."""
    return max((_EPS_ALLOWED.get(kind, 0.0) for kind in written), default=0.0)


def _flop_type(types: set[str]) -> str | None:
    """Returns the type of the flops roof with which a kernel is compared: "f64" or "f32". Returns
    None for a kernel without floats, and for one with 16-bit types, which may exceed the f32 roof.
    """
    if "f64" in types:
        return "f64"
    return "f32" if "f32" in types and not types & {"f16", "bf16"} else None
