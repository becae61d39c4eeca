"""The table of rivals that were measured in turns: their ratios. Called by tables.py."""

from __future__ import annotations

from collections.abc import Sequence

from _console.table import Table

from _bench.rows.results import Row

from .row_table import label_of

COLUMNS = ("kernel", "against", "device", "axes", "mode", "ratio", "interval", "p", "verdict")
LEGEND = "(ratio of times, below 1: the kernel is faster than the other one)"


def table(rows: Sequence[Row]) -> Table:
    """Returns the table with one line for each row that was measured against another."""
    lines = []
    for row in rows:
        s, v = row.subject, row.extra.get("versus")
        if v:
            interval = f"{v['ci_low']:.3f} .. {v['ci_high']:.3f}"
            where = [s.kernel, v["against"], s.device, label_of(row), s.mode]
            lines.append([*where, f"{v['ratio']:.3f}", interval, f"{v['p']:.1e}", v["verdict"]])
    return Table(COLUMNS, lines, below=LEGEND)
