"""A user's own kernel as a job, without Python: FILE:ENTRY, --arg specs, sizes as arithmetic over
-D names; and its rivals, which --vs names.

The kernel's language is the business of images.py and of the device. Called by the kernel command.
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
"""By how much an output of each type may be off: 100 eps are what a sum of some thousand terms
loses. In 16 bits that would be a digit, so four eps are for kernels that add up in f32.
"""
GROUP_SIZE = 256
_OPTION = re.compile(r"\s(?=-D|--groups\b|--group-size\b)")


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

    @property
    def name(self) -> str:
        return f"{self.image.name}:{self.entry}"


@dataclass(frozen=True)
class Rival:
    """A kernel of --vs, and what it says of its own: "" and {} where it says nothing."""

    image: Path
    entry: str
    groups: str = ""
    group_size: str = ""
    defines: Mapping[str, str] = field(default_factory=dict)


def rival(text: str) -> Rival:
    """That of "FILE:ENTRY --groups N/512 --group-size 128 -D BLOCK=128". Raises UsageError."""
    image, *rest = _OPTION.split(text, maxsplit=1)
    try:
        found, behind = getopt.getopt(shlex.split("".join(rest)), "D:", ["groups=", "group-size="])
    except (getopt.GetoptError, ValueError) as error:
        raise UsageError(f"--vs {text!r}: {error}") from None
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
    """The job of a kernel at a point; with `args` in place of its own. Raises UsageError for specs
    that cannot be read or do not fit together.
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
    """The group size of a point; None: that which a GLSL source says itself."""
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
    """The job with its rivals: the same arguments and inputs, and the grid and macros that each has
    of its own. Raises UsageError.
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
    """Where a rival stands: its -D are arithmetic over the names of the point."""
    known = numbers(point)
    own = {**point, **{name: arith.integer(text, known) for name, text in one.defines.items()}}
    if one.group_size:
        own[GROUP_AXIS] = shortened(triple("--group-size", one.group_size, numbers(own)))
    return own


def _tolerance(written: Sequence[str]) -> float:
    """That of the coarsest output type; --tolerance says better."""
    return max((_EPS_ALLOWED.get(kind, 0.0) for kind in written), default=0.0)


def _flop_type(types: set[str]) -> str | None:
    """The roof of flops that a kernel may be measured by: none where 16 bits may run faster."""
    if "f64" in types:
        return "f64"
    return "f32" if "f32" in types and not types & {"f16", "bf16"} else None
