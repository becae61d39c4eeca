"""The tables of a report, on a terminal and in Markdown: the rows, and their summaries.

On a terminal the notes stand below their table; a narrow terminal does not show the less important
columns. Pipes and Markdown get all columns. Called by commands/runner.py and writers.py.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from _console.table import Table, duration

from _bench.measure import self_test
from _bench.rows.results import Report

from . import row_table, search_table, versus_table

FIT_COLUMNS = (
    *("way", "device", "memory", "alpha", "interval", "GB/s", "its interval", "worst", "sizes"),
)
FIT_LEGEND = "time = alpha + bytes / (GB/s); worst: the largest error of that at a size measured"
ROOF_COLUMNS = ("device", "roof", "value")


def show(report: Report) -> None:
    """Prints the tables to stdout; a terminal also gets the notes. Failures go to stderr."""
    terminal = sys.stdout.isatty()
    print(heading(report))
    for at, table in enumerate(tables(report, notes=not terminal)):
        if at:
            print()
        table.show()
    for row in report.rows if terminal else ():
        for note in row.notes:
            print(f"{row.subject.kernel} {row_table.label_of(row)} {row.subject.mode}: {note}")


def tables(report: Report, notes: bool = True) -> list[Table]:
    """Returns the tables that have at least one line."""
    rows = report.rows
    made = [
        row_table.rows_table(rows, report.command == "kernel", notes),
        row_table.overhead_table(rows),
        versus_table.table(rows),
        search_table.table(report.extra.get("search", ())),
        _fits(report.extra.get("fits", ())),
        _roofs(report.extra.get("roofs", {}) if report.command == "peak" else {}),
    ]
    return [table for table in made if table.rows]


def heading(report: Report) -> str:
    """Returns a line about the conditions of the measurement. Another line follows for each earlier
    run whose rows were reused.
    """
    e = report.env
    names = dict.fromkeys(row.subject.where for row in report.rows)
    parts = [
        ", ".join(names),
        f"sparkle_drv {e.get('sparkle_drv')}",
        str(e.get("commit") or "no commit"),
        f"load {e.get('load_1min')}",
        f"seed {report.extra.get('seed')}",
    ]
    taken = [
        f"\n# {run['rows']} of {len(report.rows)} rows were measured by the run of {run['date']}"
        for run in report.extra.get("resumed", ())
    ]
    parts += [self_test.words(found) for found in report.extra.get("self_test", {}).values()]
    return f"# {'; '.join(parts)}{''.join(taken)}"


def _fits(fits: Sequence[Mapping[str, Any]]) -> Table:
    """Returns the table of the lines that were fitted to transfers: time by number of bytes."""
    lines = []
    for fit in fits:
        low, high = (duration(ns) for ns in fit["alpha_interval"])
        slow, fast = (f"{1 / beta:.3g}" if beta else "-" for beta in fit["beta_interval"][::-1])
        rate = f"{fit['gbytes_per_s']:.3g}" if fit["gbytes_per_s"] else "-"
        where = [fit["way"], fit["device"], fit["memory"], duration(fit["alpha_ns"])]
        rest = [f"{low} .. {high}", rate, f"{slow} .. {fast}", f"{fit['worst']:.0%}"]
        lines.append([*where, *rest, str(fit["sizes"])])
    return Table(FIT_COLUMNS, lines, above=FIT_LEGEND)


def _roofs(roofs: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Table:
    """Returns the table of the roofs that the peak command measured."""
    lines = [
        [device, f"{what} {kind}", f"{value:.1f} {unit}"]
        for device, found in roofs.items()
        for key, what, unit in (("gflops", "flops", "GFLOPS"), ("gbytes_per_s", "memory", "GB/s"))
        for kind, value in found[key].items()
    ]
    return Table(ROOF_COLUMNS, lines)
