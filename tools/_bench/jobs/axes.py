"""Axes: the named sizes of a problem, and the lists and ranges of sizes in `-a AXIS=SPEC`.

    -a n=1M,4M      -a m=256..1024*2      -a k=1:9:+4      -a layout=NCHW,NHWC

`a..b` (or `a:b`) doubles from a, unless `*factor` or `+step` (`:*factor`, `:+step`) follows. The
end b belongs to the range if a step meets it. Pure functions. Called by workloads.py (manifest
kernels) and sweeps.py (-D).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from _console.problems import UsageError

from . import arith

Value = int | str
Point = dict[str, Value]

MOST_VALUES = 256
MOST_POINTS = 4096


@dataclass(frozen=True)
class Axis:
    """One axis: its name, its default values, and either a smallest value or the allowed words.

    A table does not show the axis in a row whose value of the axis is `neutral`. Results files
    always name the axis.
    """

    name: str
    default: tuple[Value, ...]
    least: int = 1
    words: tuple[str, ...] = ()
    neutral: Value | None = None

    def parse(self, spec: str) -> tuple[Value, ...]:
        """Returns the values of a spec such as "1M,4M" or "256..1024*2".

        Raises UsageError if the spec cannot be read, has a value that the axis does not allow, or
        has more than MOST_VALUES values.
        """
        values: list[Value] = []
        for item in _split(spec):
            values += self._words(item) if self.words else self._numbers(item)
        if len(values) > MOST_VALUES:
            raise UsageError(
                f"axis {self.name}: expected at most {MOST_VALUES} values, got {len(values)}"
            )
        return tuple(dict.fromkeys(values))

    def _words(self, item: str) -> list[Value]:
        if item not in self.words:
            raise UsageError(f"axis {self.name}: {item!r} is none of {', '.join(self.words)}")
        return [item]

    def _numbers(self, item: str) -> list[Value]:
        values = span_of(item, self.name)
        for value in values:
            if value < self.least:
                raise UsageError(f"axis {self.name}: {value} is below {self.least}")
        return list(values)


def _split(spec: str) -> list[str]:
    """Splits at commas outside brackets, so that max(1, 2) stays whole."""
    items, depth, start = [], 0, 0
    for at, char in enumerate(spec):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            items.append(spec[start:at].strip())
            start = at + 1
    return [*items, spec[start:].strip()]


def span_of(item: str, name: str) -> list[int]:
    """Returns the values of one item of a spec: a number, or a range a..b, a..b*factor or
    a..b+step.

    a:b, a:b:*factor and a:b:+step mean the same. Raises UsageError if the item cannot be read or
    its range does not rise.
    """
    low_text, dots, rest = item.partition("..")
    if not dots:
        low_text, dots, rest = item.partition(":")
        high_text, colon, step_text = rest.partition(":")
        if colon and not step_text.strip().startswith(("*", "+")):
            raise UsageError(f"axis {name}: {item!r}: expected a step of the form *factor or +step")
        rest = high_text + step_text.strip()
    low = arith.integer(low_text)
    if not dots:
        return [low]
    cut = max(rest.rfind("*"), rest.rfind("+"))
    high = arith.integer(rest[:cut] if cut > 0 else rest)
    step = arith.integer(rest[cut + 1 :]) if cut > 0 else 2
    grows = cut > 0 and rest[cut] == "+"
    if high < low or step < (1 if grows else 2) or (not grows and low < 1):
        raise UsageError(f"axis {name}: expected a rising range (a..b, a..b*factor), got {item!r}")
    values = [low]
    while len(values) <= MOST_VALUES:
        following = values[-1] + step if grows else values[-1] * step
        if following > high:
            return values
        values.append(following)
    raise UsageError(f"axis {name}: {item!r} has more than {MOST_VALUES} values")


def assignments(specs: Iterable[str], flag: str = "-a") -> dict[str, str]:
    """Returns {"n": "1M,4M"} for ["n=1M,4M"]. Raises UsageError for another form or a
    repeated name.
    """
    found: dict[str, str] = {}
    for spec in specs:
        name, equals, values = spec.partition("=")
        name = name.strip()
        if not equals or not name.isidentifier() or not values.strip():
            raise UsageError(f"{flag}: expected NAME=VALUES, such as n=1M,4M, got {spec!r}")
        if name in found:
            raise UsageError(f"{flag} {name}: given twice")
        found[name] = values
    return found


def points(axes: Sequence[Axis], given: Mapping[str, str]) -> list[Point]:
    """Returns every combination of the axes' values, in order. Specs in `given` replace defaults.
    Raises UsageError for a wrong spec, and for more than MOST_POINTS combinations.
    """
    columns = [
        axis.parse(given[axis.name]) if axis.name in given else axis.default for axis in axes
    ]
    total = 1
    for column in columns:
        total *= len(column)
    if total > MOST_POINTS:
        raise UsageError(f"the axes: expected at most {MOST_POINTS} combinations, got {total}")
    return [
        dict(zip((axis.name for axis in axes), values, strict=True))
        for values in itertools.product(*columns)
    ]


def label(point: Mapping[str, Value], hidden: Mapping[str, Value] | None = None) -> str:
    """Returns a text such as "m=64 n=16M". Leaves out each axis that has the value which `hidden`
    gives for it.
    """
    shown = {k: v for k, v in point.items() if hidden is None or hidden.get(k) != v}
    return " ".join(f"{name}={short(value)}" for name, value in shown.items())


def short(value: Value) -> str:
    """Returns a number as text: 16777216 as "16M". A number that is no multiple of 1024 is written
    out.
    """
    if isinstance(value, str) or value < 1 << 14:
        return str(value)
    for suffix, unit in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if value % unit == 0:
            return f"{value // unit}{suffix}"
    return str(value)
