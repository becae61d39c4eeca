"""The points of a sweep of a user's kernel: lists and ranges of -D and --group-size, filtered by
--where.

Points come in the order of the command line; the last axis varies fastest. Pure functions. Called
by the kernel command and user_kernel.py.
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
GROUP_NAMES = ("GX", "GY", "GZ")  # names of the group's three extents in expressions
MOST_PRODUCT = 1 << 20
"""Largest number of combinations that --where may judge. A million combinations take about ten
seconds."""


def sweep(
    defines: Sequence[str],
    group_size: str = "",
    where: Sequence[str] = (),
    most: int = MOST_POINTS,
) -> list[Point]:
    """Returns the allowed points of -D NAME=V (lists and ranges as for -a) and of --group-size, in
    order.

    Several --group-size make an axis ("8x8"). `where` are conditions over the names of -D and, with
    a group size, GX, GY and GZ. Raises UsageError for an unreadable spec, for more than `most`
    points or MOST_PRODUCT combinations, and when no point is allowed.
    """
    given = assignments(defines, "-D")
    for name in given:
        check_define(name)
    columns = {name: Axis(name, (0,), least=0).parse(spec) for name, spec in given.items()}
    sizes = group_size.split(":") if group_size else []
    product = math.prod(map(len, columns.values())) * max(1, len(sizes))
    if product > MOST_PRODUCT:
        raise UsageError(
            f"-D and --group-size: expected at most {MOST_PRODUCT} combinations, got {product}"
        )
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
    """Raises UsageError unless -D may give this name. The name must be a macro name, and
    --group-size and --where must not use it already.
    """
    images.check_name(name)
    if name in (*GROUP_NAMES, GROUP_AXIS):
        raise UsageError(f"-D {name}: --group-size gives that name; expected another name")
    if name in arith.KEYWORDS:
        raise UsageError(f"-D {name}: --where uses that word; expected another name")


def _depth(text: str, names: Sequence[str]) -> int:
    """Returns the number of axes after which a condition can be decided. A condition with other
    names can be decided only with the group size, which defines GX, GY and GZ.
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
    """Yields the allowed points by depth-first search. A condition cuts a branch off as soon as its
    names have values.
    """
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
    """Returns a group size as text: "8x8" for (8, 8, 1)."""
    x, y, z = size
    return f"{x}x{y}x{z}" if z > 1 else f"{x}x{y}" if y > 1 else str(x)


def numbers(point: Point) -> dict[str, int]:
    """Returns the names that expressions may use at a point, with their values."""
    return {name: value for name, value in point.items() if isinstance(value, int)}


def triple(flag: str, text: str, names: Mapping[str, arith.Number]) -> tuple[int, int, int]:
    """Returns (x, y, z) of "N/256", "X,Y" or "X,Y,Z"; missing numbers are 1.

    Raises UsageError for more than three numbers, or for a number below 1.
    """
    values = [arith.integer(part, names) for part in split_outside_brackets(text)]
    if not 1 <= len(values) <= 3 or min(values) < 1:
        raise UsageError(f"{flag}: expected one to three numbers from 1, got {text!r}")
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z


def split_outside_brackets(text: str) -> list[str]:
    """Splits a text at commas outside brackets."""
    return re.split(r",(?![^(]*\))", text)
