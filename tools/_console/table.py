"""Tables: drawn by rich on a terminal when rich is there, aligned plain text otherwise.

Called by every command that prints one; report/row_table.py says what the columns of results are.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Sequence
from typing import TextIO

_RIGHT = {
    *("device time", "host time", "+-", "GFLOPS", "GB/s", "% of roof", "error / tolerance", "n"),
    *("ioctls / submit", "IB dwords / dispatch"),
    *("old", "new", "shift", "p", "value"),
    *("sync", "batched", "pipelined", "batched / sync", "pipelined / sync"),
    *("registers", "shared", "spills", "max group", "ratio", "alpha", "worst"),
}
_UNITS = (("s", 1e9), ("ms", 1e6), ("us", 1e3))
FOLDED = "axes"  # the one column that a narrow terminal may fold
FOLDED_WIDTH = 14


def duration(ns: float | None) -> str:
    """12.3 us: three digits and a unit."""
    if ns is None:
        return "-"
    for unit, size in _UNITS:
        if ns >= size:
            return f"{ns / size:#.4g} {unit}"
    return f"{ns:#.4g} ns"


def spread(median: float, low: float, high: float, n: int) -> str:
    """12.34 +- 0.25 us: the wider side of the interval of n samples, in the unit of the median (or
    of the interval, where that is larger); also below zero. One sample has no interval.
    """
    off = max(high - median, median - low) if n > 1 else 0.0
    size, unit = next(
        ((size, unit) for unit, size in _UNITS if max(abs(median), off) >= size), (1.0, "ns")
    )
    digits = 1 if unit == "ns" else 2
    around = f" +- {off / size:.{digits}f}" if n > 1 else ""
    return f"{median / size:.{digits}f}{around} {unit}"


def show(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    out: TextIO | None = None,
    droppable: Sequence[str] = (),
    kept: Sequence[str] = (),
) -> None:
    """Prints a table; columns in which nothing stands are left out but for the `kept` ones, and so
    are `droppable` ones, first named first, while a terminal is too narrow.
    """
    out = out or sys.stdout
    used = [
        i
        for i, name in enumerate(columns)
        if name in kept or any(row[i] not in ("", "-") for row in rows) or not rows
    ]
    names = [columns[i] for i in used]
    lines = [[row[i] for i in used] for row in rows]
    if out.isatty():
        terminal = shutil.get_terminal_size().columns
        while _narrowest(names, lines) > terminal and (drop := _first(droppable, names)):
            at = names.index(drop)
            names.pop(at)
            lines = [line[:at] + line[at + 1 :] for line in lines]
        if _narrowest(names, lines) <= terminal and _show_rich(names, lines):
            return
    widths = [max(len(name), *(len(row[i]) for row in lines), 0) for i, name in enumerate(names)]
    for line in [names, ["-" * width for width in widths], *lines]:
        padded = (
            cell.rjust(width) if name in _RIGHT else cell.ljust(width)
            for cell, width, name in zip(line, widths, names, strict=True)
        )
        print("  ".join(padded).rstrip(), file=out)


def _first(wanted: Sequence[str], there: Sequence[str]) -> str | None:
    return next((name for name in wanted if name in there), None)


def _narrowest(names: Sequence[str], lines: Sequence[Sequence[str]]) -> int:
    """Columns of a terminal that rich needs when it folds the one column that may be folded."""
    widths = [max(len(name), *(len(row[i]) for row in lines), 0) for i, name in enumerate(names)]
    folded = [
        min(w, FOLDED_WIDTH) if n == FOLDED else w for w, n in zip(widths, names, strict=True)
    ]
    return sum(folded) + 3 * len(folded)


def _show_rich(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Draws with rich; False when rich is not installed (it comes with the `tools` extra)."""
    try:
        console = importlib.import_module("rich.console")
        drawn = importlib.import_module("rich.table")
    except ImportError:
        return False
    box = importlib.import_module("rich.box")
    text = importlib.import_module("rich.text")
    grid = drawn.Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name in columns:
        grid.add_column(
            name,
            justify="right" if name in _RIGHT else "left",
            overflow="fold",
            no_wrap=name != FOLDED,
        )
    for row in rows:
        style = "bold red" if "FAILED" in row else "yellow" if "UNVERIFIED" in row else ""
        grid.add_row(*(text.Text(cell) for cell in row), style=style)
    console.Console().print(grid)
    return True
