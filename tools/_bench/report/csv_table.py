"""The rows of a report as CSV: one observation per row, one variable per column, plain numbers.

Columns without any value are left out. Called by writers.py.
"""

from __future__ import annotations

import csv
import io

from _bench.machine import noise
from _bench.rows import overhead
from _bench.rows.results import CACHE_COUNTS, Report, Row

ALWAYS = ("kernel", "device", "device_name", "emulated", "mode", "verified")
AXIS = "axis_"  # prefix of an axis's column, because another column may have the axis's name
RESOURCES = ("registers", "shared_nbytes", "spill_nbytes", "max_group_size")
VERSUS = {
    **{"against": "against", "ratio": "ratio", "ci_low": "ratio_ci_low"},
    **{"ci_high": "ratio_ci_high", "p": "ratio_p", "verdict": "verdict"},
}
COLUMNS = (
    *("time_ns", "ci_low_ns", "ci_high_ns", "n", "stop", "of", "batch", "host_ns"),
    *("gflops", "gbytes_per_s", "roof_percent", "roof_low_percent", "roof_high_percent", "roof"),
    *(*noise.CSV_COLUMNS, "max_rel_rms", "tolerance", "reason", "notes"),
    *("ioctls_per_submit", "ib_dwords_per_dispatch", *CACHE_COUNTS.values()),
    *(*RESOURCES, *VERSUS.values(), *overhead.CSV_COLUMNS),
)


def as_csv(report: Report) -> str:
    """Returns the report as CSV: one line per row, without the samples."""
    rows = [_cells(row) for row in report.rows]
    axes = dict.fromkeys(AXIS + name for row in report.rows for name in row.subject.axes)
    used = {name for row in rows for name, value in row.items() if value not in (None, "")}
    columns = [*ALWAYS, *(name for name in (*axes, *COLUMNS) if name in used)]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _cells(row: Row) -> dict[str, object]:
    s, measured = row.subject, row.measured
    told, versus = row.extra.get("resources", {}), row.extra.get("versus", {})
    cells: dict[str, object] = {
        **{"kernel": s.kernel, "device": s.device, "device_name": s.device_name},
        **{"emulated": s.emulated, "mode": s.mode, "verified": row.verified},
        **{AXIS + name: value for name, value in s.axes.items()},
        **{"max_rel_rms": row.error.get("max_rel_rms"), "tolerance": row.error.get("tolerance")},
        **{"reason": row.reason, "notes": "; ".join(row.notes)},
        **{name: told.get(name) for name in RESOURCES},
        **{column: versus.get(key) for key, column in VERSUS.items()},
    }
    if measured and (time := row.time):
        host = row.host
        cells |= {"time_ns": time.median, "ci_low_ns": time.low, "ci_high_ns": time.high}
        cells |= {"n": time.n, "stop": measured.stop, "of": measured.primary}
        cells |= {"batch": measured.batch, "host_ns": host.median if host else None}
    if not s.emulated:
        cells |= {"gflops": row.gflops, "gbytes_per_s": row.gbytes_per_s}
        cells |= {"roof_percent": row.roof_percent, "roof": row.roof}
        if row.share is not None and row.share.is_known:
            ratio = row.share.ratio
            cells |= {"roof_low_percent": 100 * ratio.low, "roof_high_percent": 100 * ratio.high}
    if row.noise is not None:
        cells |= {"noise_percent": row.spread_percent, **row.noise.as_json()}
    if row.submission is not None:
        cells |= row.submission.as_json()
    if row.overhead is not None:
        cells |= row.overhead.flat()
    return cells
