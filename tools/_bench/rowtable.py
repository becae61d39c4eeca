"""Results as a table: what stands in which column, and what a terminal gets beside it.

A terminal has the notes below its table and loses the less important columns when it is narrow;
pipes and Markdown have them all.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from . import sweeptable, table
from .axes import label
from .results import Row

COLUMNS = (
    *("kernel", "device", "axes", "mode", "device time", "host time", "+-", "GFLOPS", "GB/s"),
    *("% of roof", "check", "error / tolerance", "n", "stop", "notes"),
)
DROPPABLE = ("device", "n", "error / tolerance", "stop", "GB/s")
LEGEND = "+- and rates: of the device's time in modes hot and cold, of the host's in the others"


def cells(row: Row) -> list[str]:
    """One row as text, in the order of COLUMNS. A row whose check failed shows what failed and no
    time.
    """
    subject, time, measured = row.subject, row.time, row.measured
    roof = f"{row.roof_percent:.0f}% {row.roof}" if row.roof_percent is not None else "-"
    return [
        subject.kernel,
        subject.device + (" (emulated)" if subject.emulated else ""),
        _label(row),
        subject.mode,
        table.duration(row.device.median if row.device else None),
        table.duration(row.host.median if row.host else None),
        f"{100 * time.half_width:.1f}%" if time and time.half_width < 10 else "-",
        _number(row.gflops),
        _number(row.gbytes_per_s),
        roof,
        _check(row),
        f"{_scientific(row.error.get('max_rel_rms'))} / {_tolerance(row)}",
        f"{time.n} x {measured.batch}" if time and measured else "-",
        measured.stop if measured else "-",
        "; ".join(_notes(row)),
    ]


def show(rows: Sequence[Row], sweep: bool = False) -> None:
    """Prints the rows to stdout; with `sweep` as the kernel command wants it, a column for each
    swept axis, what the kernel takes of the device, and which row is the best.
    """
    terminal = sys.stdout.isatty()
    lines = [[*cells(row)[:-1], "-" if terminal else cells(row)[-1]] for row in rows]
    several = len({row.subject.device for row in rows}) > 1
    droppable = tuple(name for name in DROPPABLE if not (several and name == "device"))
    columns: Sequence[str] = COLUMNS
    kept: Sequence[str] = ()
    if sweep:
        columns, lines = sweeptable.widened(COLUMNS, rows, lines)
        kept = sweeptable.RESOURCES
    table.show(columns, lines, droppable=droppable, kept=kept)
    if any(row.measured and row.measured.primary == "host" for row in rows):
        print(f"({LEGEND})")
    if terminal:
        for row in rows:
            for note in row.notes:  # what failed goes to stderr
                print(f"{row.subject.kernel} {_label(row)} {row.subject.mode}: {note}")


def _label(row: Row) -> str:
    return str(row.extra.get("label", label(row.subject.axes)))


def _check(row: Row) -> str:
    if row.verified:
        return "verified"
    return "FAILED" if "what" in row.error else "UNVERIFIED"


def _notes(row: Row) -> list[str]:
    return [*([row.reason] if row.reason else []), *row.notes]


def _tolerance(row: Row) -> str:
    tolerance = row.error.get("tolerance")
    return "exact" if tolerance == 0 else _scientific(tolerance)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 1000 else f"{value:#.3g}".rstrip(".")


def _scientific(value: Any) -> str:
    return f"{value:.1e}" if isinstance(value, int | float) else "-"
