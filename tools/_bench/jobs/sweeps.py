"""The points of a sweep of a user's kernel: lists and ranges of -D and --group-size, of which
--where keeps some.

Points come in the order of the command line, the last axis fastest. Called by the kernel command
and user_kernel.py. Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from _console.problems import UsageError

from . import arith, images
from .axes import MOST_POINTS, Axis, Point, Value, assignments

GROUP_AXIS = "group_size"
GROUP_NAMES = ("GX", "GY", "GZ")  # what expressions call the group's size
MOST_PRODUCT = 1 << 20
"""Combinations that --where may be asked about; a million take about ten seconds."""


def sweep(
    defines: Sequence[str],
    group_size: str = "",
    where: Sequence[str] = (),
    most: int = MOST_POINTS,
) -> list[Point]:
    """The allowed points of -D NAME=V (lists and ranges as for -a) and of --group-size, in order.

    --group-size is an axis ("8x8") when several are given. `where` are conditions over the names of
    -D and, with a group size, GX, GY and GZ. Raises UsageError: for what cannot be read, for more
    than `most` points or MOST_PRODUCT combinations, and when no point is allowed.
    """
    given = assignments(defines, "-D")
    for name in given:
        check_define(name)
    columns = {name: Axis(name, (0,), least=0).parse(spec) for name, spec in given.items()}
    sizes = group_size.split(":") if group_size else []
    product = math.prod(map(len, columns.values())) * max(1, len(sizes))
    if product > MOST_PRODUCT:
        raise UsageError(f"-D and --group-size make {product} combinations, {MOST_PRODUCT} at most")
    names = [*columns]
    checks: list[list[str]] = [[] for _ in range(len(names) + 2)]
    for text in where:
        checks[_depth(text, names)].append(text)
    found = list(islice(_allowed({}, columns, sizes, checks), most + 1))
    if len(found) > most:
        raise UsageError(f"-D and --group-size make more than {most} rows")
    if not found:
        said = " and ".join(map(repr, where))
        raise UsageError(f"--where {said}: none of {product} combinations is allowed")
    return found


def check_define(name: str) -> None:
    """Raises UsageError for a name that -D must not give."""
    images.check_name(name)
    if name in (*GROUP_NAMES, GROUP_AXIS):
        raise UsageError(f"-D {name}: that is what --group-size gives; take another name")
    if name in arith.KEYWORDS:
        raise UsageError(f"-D {name}: that is a word of --where; take another name")


def _depth(text: str, names: Sequence[str]) -> int:
    """After how many axes a condition can be decided; a name that is no axis waits for the group
    size, where GX, GY and GZ are known.
    """
    used = arith.names_in(text)
    last = len(names) + 1
    return max((names.index(name) + 1 if name in names else last for name in used), default=0)


def _allowed(
    point: Point,
    columns: Mapping[str, Sequence[Value]],
    sizes: Sequence[str],
    checks: Sequence[Sequence[str]],
) -> Iterator[Point]:
    """Depth first; a condition cuts off its branch as soon as the names in it have values."""
    if not all(arith.evaluate(text, numbers(point)) for text in checks[len(point)]):
        return
    if len(point) < len(columns):
        name = [*columns][len(point)]
        for value in columns[name]:
            yield from _allowed({**point, name: value}, columns, sizes, checks)
        return
    known = numbers(point)
    tried = []
    for text in sizes or [""]:
        group = triple("--group-size", text, known) if sizes else None
        if group in tried:
            continue
        tried.append(group)
        names = {**known, **dict(zip(GROUP_NAMES, group or (), strict=False))}
        if all(arith.evaluate(text, names) for text in checks[-1]):
            shown = {GROUP_AXIS: shortened(group)} if group and len(sizes) > 1 else {}
            yield {**point, **shown}


def shortened(size: tuple[int, int, int]) -> str:
    """ "8x8" of (8, 8, 1)."""
    x, y, z = size
    return f"{x}x{y}x{z}" if z > 1 else f"{x}x{y}" if y > 1 else str(x)


def numbers(point: Point) -> dict[str, int]:
    """What expressions know at a point."""
    return {name: value for name, value in point.items() if isinstance(value, int)}


def triple(flag: str, text: str, names: Mapping[str, arith.Number]) -> tuple[int, int, int]:
    """(x, y, z) of "N/256", "X,Y" or "X,Y,Z"; missing ones are 1. Raises UsageError."""
    values = [arith.integer(part, names) for part in split_outside_brackets(text)]
    if not 1 <= len(values) <= 3 or min(values) < 1:
        raise UsageError(f"{flag} {text!r}: one to three numbers from 1 are wanted")
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z


def split_outside_brackets(text: str) -> list[str]:
    """Splits at commas that stand in no brackets."""
    return re.split(r",(?![^(]*\))", text)
