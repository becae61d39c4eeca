"""The table a person reads: drawn by rich on a terminal when rich is there, aligned plain text
otherwise.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from .axes import label
from .results import Row

COLUMNS = (
    *("kernel", "device", "axes", "mode", "time", "+-", "host", "GFLOPS", "GB/s", "% of roof"),
    *("check", "error / tolerance", "n", "stop", "notes"),
)
_RIGHT = {
    "time",
    "+-",
    "host",
    "GFLOPS",
    "GB/s",
    "% of roof",
    "error / tolerance",
    "n",
    "old",
    "new",
    "shift",
    "p",
    "value",
}


def duration(ns: float | None) -> str:
    """12.3 us: three digits and a unit."""
    if ns is None:
        return "-"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:#.4g} {unit}"
    return f"{ns:#.4g} ns"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 1000 else f"{value:#.3g}".rstrip(".")


def cells(row: Row) -> list[str]:
    """One row as text, in the order of COLUMNS. A row whose check failed shows what failed and no
    time.
    """
    subject, time, host, error = row.subject, row.time, row.host, row.error
    device = subject.device + (" (emulated)" if subject.emulated else "")
    # The host clock is marked where it is the row's own time: latency and pipeline.
    of_host = " (host)" if row.measured and row.measured.primary == "host" else ""
    batch = f" x{row.measured.batch}" if row.measured and row.measured.batch > 1 else ""
    check = (
        "verified"
        if row.verified
        else "UNVERIFIED"
        if row.measured or not error.get("what")
        else "FAILED"
    )
    tolerance = "exact" if error.get("tolerance") == 0 else _scientific(error.get("tolerance"))
    return [
        subject.kernel,
        device,
        str(row.extra.get("label", label(subject.axes))),
        subject.mode,
        duration(time.median) + of_host if time else "-",
        f"{100 * time.half_width:.1f}%" if time and time.half_width < 10 else "-",
        duration(host.median) if host else "-",
        _number(row.gflops),
        _number(row.gbytes_per_s),
        f"{row.roof_percent:.0f}% {row.roof}" if row.roof_percent is not None else "-",
        check,
        f"{_scientific(error.get('max_rel_rms'))} / {tolerance}",
        f"{time.n}{batch}" if time else "-",
        row.measured.stop if row.measured else "-",
        "; ".join([*([row.reason] if row.reason else []), *row.notes]),
    ]


def _scientific(value: Any) -> str:
    return f"{value:.1e}" if isinstance(value, (int, float)) else "-"


def show(columns: Sequence[str], rows: Sequence[Sequence[str]], out: TextIO | None = None) -> None:
    """Prints a table; columns in which nothing stands are left out."""
    out = out or sys.stdout
    used = [
        i
        for i, name in enumerate(columns)
        if any(row[i] not in ("", "-") for row in rows) or not rows
    ]
    columns = [columns[i] for i in used]
    rows = [[row[i] for i in used] for row in rows]
    if out.isatty() and _show_rich(columns, rows):
        return
    widths = [max(len(name), *(len(row[i]) for row in rows), 0) for i, name in enumerate(columns)]
    for line in [columns, ["-" * width for width in widths], *rows]:
        padded = (
            cell.rjust(width) if name in _RIGHT else cell.ljust(width)
            for cell, width, name in zip(line, widths, columns, strict=True)
        )
        print("  ".join(padded).rstrip(), file=out)


def _show_rich(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Draws with rich; False when rich is not installed (it comes with the `tools` extra)."""
    try:
        console = importlib.import_module("rich.console")
        drawn = importlib.import_module("rich.table")
    except ImportError:
        return False
    box = importlib.import_module("rich.box")
    text = importlib.import_module("rich.text")
    grid = drawn.Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        grid.add_column(name, justify="right" if name in _RIGHT else "left", overflow="fold")
    for row in rows:
        style = "bold red" if "FAILED" in row else "yellow" if "UNVERIFIED" in row else ""
        grid.add_row(*(text.Text(cell) for cell in row), style=style)
    console.Console().print(grid)
    return True
