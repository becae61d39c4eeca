"""The results of `kernel --search`, one line per size. Called by tables.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from _console.table import Table, duration

COLUMNS = (
    *("search", "device", "mode", "tried", "failed", "of", "best found", "time"),
    *("first point", "times as fast", "interval"),
)


def table(found: Sequence[Mapping[str, Any]]) -> Table:
    return Table(COLUMNS, [_line(one) for one in found])


def _line(one: Mapping[str, Any]) -> list[str]:
    ratio, low, high = one["ratio"] or (None,) * 3
    return [
        *(one["kernel"], one["device"], one["mode"]),
        *(str(one[key]) for key in ("tried", "failed", "of")),
        one["best"] or "none is right",
        duration(one["best_ns"]),
        "the same" if one["first"] == one["best"] else one["first"],
        "-" if ratio is None else f"{ratio:.3g}",
        "-" if ratio is None else f"{low:.3g} .. {high:.3g}",
    ]
