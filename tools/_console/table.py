"""Tables: drawn by rich on a terminal if rich is installed, otherwise aligned plain text; or
Markdown.

Every command that prints a table uses this module. report/row_table.py defines the columns of
results.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

_RIGHT = {
    *("device time", "host time", "+-", "GFLOPS", "GB/s", "% of roof", "error / tolerance", "n"),
    *("ioctls / submit", "IB dwords / dispatch"),
    *("old", "new", "shift", "p", "value"),
    *("sync", "batched", "pipelined", "batched / sync", "pipelined / sync"),
    *("registers", "shared", "spills", "max group", "ratio", "alpha", "worst"),
}
_UNITS = (("s", 1e9), ("ms", 1e6), ("us", 1e3))
FOLDED = "axes"  # the only column whose text a narrow terminal may wrap
FOLDED_WIDTH = 14


def duration(ns: float | None) -> str:
    """Returns a time with three digits and a unit, such as "12.3 us"."""
    if ns is None:
        return "-"
    for unit, size in _UNITS:
        if ns >= size:
            return f"{ns / size:#.4g} {unit}"
    return f"{ns:#.4g} ns"


def spread(median: float, low: float, high: float, n: int) -> str:
    """Returns a median with its uncertainty, such as "12.34 +- 0.25 us"; values may be negative.

    The uncertainty is the wider side of the interval of n samples. The unit suits the larger of the
    two numbers. A single sample has no interval.
    """
    off = max(high - median, median - low) if n > 1 else 0.0
    size, unit = next(
        ((size, unit) for unit, size in _UNITS if max(abs(median), off) >= size), (1.0, "ns")
    )
    digits = 1 if unit == "ns" else 2
    around = f" +- {off / size:.{digits}f}" if n > 1 else ""
    return f"{median / size:.{digits}f}{around} {unit}"


@dataclass(frozen=True)
class Table:
    """Rows of text under columns.

    A column without any text is left out unless it is `kept`. A narrow terminal does not show the
    `droppable` columns; the first named is dropped first. `above` and `below` are lines around the
    table.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    droppable: Sequence[str] = ()
    kept: Sequence[str] = ()
    above: str = ""
    below: str = ""

    def used(self) -> tuple[list[str], list[list[str]]]:
        """Returns the columns that are shown, and their cells in each row."""
        used = [
            i
            for i, name in enumerate(self.columns)
            if name in self.kept
            or any(row[i] not in ("", "-") for row in self.rows)
            or not self.rows
        ]
        return [self.columns[i] for i in used], [[row[i] for i in used] for row in self.rows]

    def show(self, out: TextIO | None = None) -> None:
        """Prints the table and the lines around it."""
        out = out or sys.stdout
        if self.above:
            print(self.above, file=out)
        names, lines = self.used()
        if out.isatty():
            terminal = shutil.get_terminal_size().columns
            while _narrowest(names, lines) > terminal and (drop := _first(self.droppable, names)):
                at = names.index(drop)
                names.pop(at)
                lines = [line[:at] + line[at + 1 :] for line in lines]
        fits = out.isatty() and _narrowest(names, lines) <= shutil.get_terminal_size().columns
        if not (fits and _show_rich(names, lines)):
            widths = _widths(names, lines)
            for line in [names, ["-" * width for width in widths], *lines]:
                print("  ".join(_padded(names, line, widths)).rstrip(), file=out)
        if self.below:
            print(self.below, file=out)

    def markdown(self) -> list[str]:
        """Returns the table as Markdown, with the lines around it."""
        names, lines = self.used()
        escaped = [[cell.replace("|", "\\|") for cell in line] for line in [names, *lines]]
        widths = [max(3, width) for width in _widths(escaped[0], escaped[1:])]
        rules = [
            "-" * (width - 1) + (":" if name in _RIGHT else "-")
            for name, width in zip(names, widths, strict=True)
        ]
        made = [
            f"| {' | '.join(_padded(names, line, widths))} |"
            for line in [escaped[0], rules, *escaped[1:]]
        ]
        above = [self.above, ""] if self.above else []
        return [*above, *made, *(["", *self.below.splitlines()] if self.below else [])]


def show(columns: Sequence[str], rows: Sequence[Sequence[str]], out: TextIO | None = None) -> None:
    """Prints a table. Columns without any text are left out; a narrow terminal shows all others."""
    Table(columns, rows).show(out)


def _widths(names: Sequence[str], lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(name), *(len(row[i]) for row in lines), 0) for i, name in enumerate(names)]


def _padded(names: Sequence[str], line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.rjust(width) if name in _RIGHT else cell.ljust(width)
        for cell, width, name in zip(line, widths, names, strict=True)
    ]


def _first(wanted: Sequence[str], there: Sequence[str]) -> str | None:
    return next((name for name in wanted if name in there), None)


def _narrowest(names: Sequence[str], lines: Sequence[Sequence[str]]) -> int:
    """Returns the width in characters that rich needs when it wraps the one column that may be
    wrapped.
    """
    folded = [
        min(w, FOLDED_WIDTH) if n == FOLDED else w
        for w, n in zip(_widths(names, lines), names, strict=True)
    ]
    return sum(folded) + 3 * len(folded)


def _show_rich(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Draws the table with rich. Returns False when rich is not installed (the `tools`
    extra has it).
    """
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
