"""Results as a table: makes the text of each column. Called by tables.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from _console import table
from _console.table import Table

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
LONGEST_NOTE = 300  # letters
DROPPABLE = ("device", "n", *noise.COLUMNS, "error / tolerance", "stop", "GB/s")
OVERHEAD_COLUMNS = (
    *("kernel", "device", "axes", "a launch", *WAYS),
    *(f"{way} / {SYNC}" for way in WAYS if way != SYNC),
)
OVERHEAD_LEGEND = "overhead: host time less device time; ratios of the medians, 95 % intervals"
EMULATED_LEGEND = (
    "emulated: host time is the caller's cost of a dispatch outside the emulated kernel driver; "
    "an emulator has no device time and no rates\n"
    "a submission: bytes over the bus of a card with memory of its own, as code, scalar loads (the "
    "arguments), packets, data, and written; invalidations of the caches I, K, V, GL1, GL2"
)
LEGEND = "+- and rates: of the device's time in modes hot and cold, else of the host's"


def cells(row: Row) -> list[str]:
    """Returns one row as text, in the order of COLUMNS. A row whose check failed shows the error
    and no time. A row of an emulated device has no device time and no rate.
    """
    subject, time, measured = row.subject, row.time, row.measured
    device = None if subject.emulated else row.device
    return [
        subject.kernel,
        subject.device + (" (emulated)" if subject.emulated else ""),
        label_of(row),
        subject.mode,
        table.duration(device.median if device else None),
        table.duration(row.host.median if row.host else None),
        f"{100 * time.half_width:.1f}%" if time and time.half_width < 10 else "-",
        *("-" if subject.emulated else _number(r) for r in (row.gflops, row.gbytes_per_s)),
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
        _abridged("; ".join(_notes(row))),
    ]


def rows_table(rows: Sequence[Row], sweep: bool = False, notes: bool = True) -> Table:
    """Returns the table of rows. With `sweep` (the kernel command) the table also has a column for
    each swept axis, and columns for the kernel's use of registers and memory. It then marks the
    best row of each size.
    """
    lines = [[*cells(row)[:-1], cells(row)[-1] if notes else "-"] for row in rows]
    columns: Sequence[str] = COLUMNS
    if sweep:
        columns, lines = sweep_table.widened(COLUMNS, rows, lines)
    real = [row for row in rows if row.measured and not row.subject.emulated]
    legends = [
        f"({LEGEND})" if any(r.measured and r.measured.primary == "host" for r in real) else "",
        f"({EMULATED_LEGEND})" if any(r.measured and r.subject.emulated for r in rows) else "",
    ]
    kept = sweep_table.RESOURCES if sweep else ()
    below = "\n".join(legend for legend in legends if legend)
    return Table(columns, lines, _droppable(rows), kept, below=below)


def overhead_table(rows: Sequence[Row]) -> Table:
    """Returns the table that compares the three WAYS to submit a launch: sync, batched, pipelined.
    Each row that was measured in all three has one line for each of QUANTITIES.
    """
    lines = [
        [
            *(row.subject.kernel, row.subject.device, label_of(row)),
            quantity if quantity == "overhead" else f"{quantity} time",
            *_ways(row.overhead, quantity),
        ]
        for row in rows
        if row.overhead is not None
        for quantity in QUANTITIES
    ]
    return Table(OVERHEAD_COLUMNS, lines, _droppable(rows), below=f"({OVERHEAD_LEGEND})")


def _droppable(rows: Sequence[Row]) -> tuple[str, ...]:
    """Returns the columns that a narrow terminal may drop. The device's column stays if rows have
    different devices, or if a device is emulated.
    """
    devices = {row.subject.device for row in rows}
    needed = len(devices) > 1 or any(row.subject.emulated for row in rows)
    return tuple(name for name in DROPPABLE if not (needed and name == "device"))


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
    """Returns the cells about a submission to an emulated card: its counts of bytes over the bus,
    cache invalidations and flushes.
    """
    if submission is None:
        return ["-"] * 3
    numbers = [_number(value) if value else "0" for value in submission.caches.values()]
    return [" ".join(numbers[:5]), " ".join(numbers[5:10]), numbers[10]]


def label_of(row: Row) -> str:
    """Returns the row's point on its axes as text, such as "m=64 n=16M"."""
    return str(row.extra.get("label", label(row.subject.axes)))


def _share(row: Row) -> str:
    """Returns text such as "93% copy (90..96)". The interval is there only if there are enough
    rounds for it.
    """
    if row.share is None or row.subject.emulated:
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


def _abridged(text: str) -> str:
    """Returns a cell's text, cut to LONGEST_NOTE letters. The report of a hung device about its
    queue is pages long; stderr shows all of it.
    """
    return text if len(text) <= LONGEST_NOTE else text[: LONGEST_NOTE - 4] + " ..."


def _tolerance(row: Row) -> str:
    tolerance = row.error.get("tolerance")
    return "exact" if tolerance == 0 else _scientific(tolerance)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 1000 else f"{value:#.3g}".rstrip(".")


def _scientific(value: Any) -> str:
    return f"{value:.1e}" if isinstance(value, int | float) else "-"
