"""Results as a table: what stands in which column, and what a terminal gets beside it.

A terminal has the notes below its table and loses the less important columns when it is narrow;
pipes and Markdown have them all.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from _console import table

from _bench.jobs.axes import label
from _bench.machine import noise
from _bench.rows.overhead import QUANTITIES, SYNC, WAYS, Overhead, Ratio
from _bench.rows.results import Row, Submission

from . import sweep_table

COLUMNS = (
    *("kernel", "device", "axes", "mode", "device time", "host time", "+-", "GFLOPS", "GB/s"),
    *("ioctls / submit", "IB dwords / dispatch"),
    *("bus bytes / submit", "invalidations / submit", "L2 flushes / submit"),
    *("% of roof", *noise.COLUMNS, "check", "error / tolerance", "n", "stop", "notes"),
)
DROPPABLE = ("device", "n", *noise.COLUMNS, "error / tolerance", "stop", "GB/s")
OVERHEAD_COLUMNS = (
    *("kernel", "device", "axes", "a launch", *WAYS),
    *(f"{way} / {SYNC}" for way in WAYS if way != SYNC),
)
OVERHEAD_LEGEND = "overhead: host time less device time; ratios of the medians, 95 % intervals"
EMULATED_LEGEND = (
    "emulated: host time is what a dispatch costs its caller outside the emulated kernel's ioctls; "
    "an emulator has no device time and no rates\n"
    "a submission: bytes over the bus of a card with memory of its own, as code, scalar loads (the "
    "arguments), packets, data, and written; invalidations of the caches I, K, V, GL1, GL2"
)
LEGEND = "+- and rates: of the device's time in modes hot and cold, of the host's in the others"


def cells(row: Row) -> list[str]:
    """One row as text, in the order of COLUMNS. A row whose check failed shows what failed and no
    time.
    """
    subject, time, measured = row.subject, row.time, row.measured
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
        _number(row.submission.ioctls if row.submission else None),
        _number(row.submission.ib_dwords if row.submission else None),
        *_caches(row.submission),
        _share(row),
        f"{row.spread_percent:.0f}%" if row.noise else "-",
        *(row.noise or noise.Noise()).cells(),
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
        columns, lines = sweep_table.widened(COLUMNS, rows, lines)
        kept = sweep_table.RESOURCES
    table.show(columns, lines, droppable=droppable, kept=kept)
    if any(r.measured and r.measured.primary == "host" and not r.subject.emulated for r in rows):
        print(f"({LEGEND})")
    if any(row.measured and row.subject.emulated for row in rows):
        print(f"({EMULATED_LEGEND})")
    compared = overhead_lines(rows)
    if compared:
        print()
        table.show(OVERHEAD_COLUMNS, compared, droppable=droppable)
        print(f"({OVERHEAD_LEGEND})")
    if terminal:
        for row in rows:
            for note in row.notes:  # what failed goes to stderr
                print(f"{row.subject.kernel} {_label(row)} {row.subject.mode}: {note}")


def overhead_lines(rows: Sequence[Row]) -> list[list[str]]:
    """The ways of submitting side by side: a line for each quantity of each row that has them, in
    the order of OVERHEAD_COLUMNS.
    """
    return [
        [
            *(row.subject.kernel, row.subject.device, _label(row)),
            quantity if quantity == "overhead" else f"{quantity} time",
            *_ways(row.overhead, quantity),
        ]
        for row in rows
        if row.overhead is not None
        for quantity in QUANTITIES
    ]


def _ways(overhead: Overhead, quantity: str) -> list[str]:
    found = [overhead.summary(way, quantity) for way in WAYS]
    ratios = [overhead.of_sync(way, quantity) for way in WAYS if way != SYNC]
    return [*(table.spread(s.median, s.low, s.high, s.n) for s in found), *map(_ratio, ratios)]


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return "-"
    middle, low, high = ratio
    return f"{middle:.2f}" if low is None else f"{middle:.2f} ({low:.2f} .. {high:.2f})"


def _caches(submission: Submission | None) -> list[str]:
    """What a submission moves over the bus, invalidates and flushes."""
    if submission is None:
        return ["-"] * 3
    numbers = [_number(value) if value else "0" for value in submission.caches.values()]
    return [" ".join(numbers[:5]), " ".join(numbers[5:10]), numbers[10]]


def _label(row: Row) -> str:
    return str(row.extra.get("label", label(row.subject.axes)))


def _share(row: Row) -> str:
    """ "93% copy (90..96)": the interval where there are turns enough for one."""
    if row.share is None:
        return "-"
    ratio = row.share.ratio
    words = f"{_percent(ratio.median)}% {row.share.kind}"
    if not row.share.is_known:
        return words
    return f"{words} ({_percent(ratio.low)}..{_percent(ratio.high)})"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.0f}" if ratio >= 0.01 else f"{100 * ratio:.1g}"


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
