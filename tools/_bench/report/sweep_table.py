"""Extra columns of the kernel command's table: one for each swept axis, the driver's facts about
the kernel, and a mark on the best row of each size. Called by row_table.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from _bench.jobs.axes import label, short
from _bench.rows.results import Row

RESOURCES = ("registers", "shared", "spills", "max group")
_KEYS = ("registers", "shared_nbytes", "spill_nbytes", "max_group_size")
BEST = "best"


def swept(rows: Sequence[Row]) -> list[str]:
    """Returns the axes on which the rows have different values."""
    names = dict.fromkeys(name for row in rows for name in row.subject.axes)
    return [name for name in names if len({row.subject.axes.get(name) for row in rows}) > 1]


def merit(row: Row) -> float:
    """Returns the figure by which rows are compared (larger is better): GFLOPS, or GB/s, or
    launches per second, whichever the row has first.
    """
    time = row.time
    per_second = 1e9 / time.median if time and time.median > 0 else 0.0
    return row.gflops or row.gbytes_per_s or per_second


def best(rows: Sequence[Row]) -> list[int]:
    """Returns the indices of the rows that are the best of their kernel, device, mode and size.

    The result never has an unverified row, a row of an emulated device, or the only row of its
    size. Rows have one size when their arrays, flops and bytes are the same.
    """
    found: dict[tuple[Any, ...], list[int]] = {}
    for at, row in enumerate(rows):
        s = row.subject
        if row.verified and row.measured and not s.emulated:
            size = [row.extra.get(key) for key in ("operands", "flops", "nbytes")]
            found.setdefault((s.kernel, s.device, s.mode, str(size)), []).append(at)
    return [max(among, key=lambda at: _standing(rows[at])) for among in found.values() if among[1:]]


def _standing(row: Row) -> tuple[bool, float]:
    """Returns the key by which the best row is chosen: the largest key wins. The winner of a
    search's final comparison beats all rows that were measured one after another.
    """
    return "is_best" in row.extra, merit(row)


def widened(
    columns: Sequence[str], rows: Sequence[Row], lines: Sequence[Sequence[str]]
) -> tuple[tuple[str, ...], list[list[str]]]:
    """Returns (columns, lines) with added columns: one for each swept axis, one that marks the best
    rows, and the kernel's resources. The column "axes" keeps only the axes that are not swept.
    """
    names, at, marked = swept(rows), columns.index("axes"), best(rows)
    made = []
    for i, (row, line) in enumerate(zip(rows, lines, strict=True)):
        axes = row.subject.axes
        rest = {name: value for name, value in axes.items() if name not in names}
        cells = [short(axes[name]) if name in axes else "-" for name in names]
        mark = BEST if i in marked else "-"
        behind = [*line[at + 1 : -1], *_resources(row), line[-1]]
        made.append([*line[:at], label(rest), *cells, mark, *behind])
    # the space tells an axis named "n" from the column "n"
    shown = [f" {name}" if name in columns else name for name in names]
    head = (*columns[:at], "axes", *shown, BEST, *columns[at + 1 : -1], *RESOURCES, columns[-1])
    return head, made


def _resources(row: Row) -> list[str]:
    told = row.extra.get("resources", {})
    return ["-" if told.get(key) is None else str(told[key]) for key in _KEYS]
