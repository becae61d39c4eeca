"""The files that a report becomes: --json --csv --md. Each is whole at every moment (written after
every row).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import results, rowtable
from .axes import label
from .problems import UsageError
from .results import Report, Row

CSV_COLUMNS = [
    "kernel",
    "device",
    "device_name",
    "emulated",
    "axes",
    "mode",
    "verified",
    "time_ns",
    "ci_low_ns",
    "ci_high_ns",
    "n",
    "stop",
    "of",
    "batch",
    "host_ns",
    "gflops",
    "gbytes_per_s",
    "roof_percent",
    "roof",
    "max_rel_rms",
    "tolerance",
    "reason",
    "notes",
]


@dataclass(frozen=True)
class Outputs:
    """Where to write what; None: not at all."""

    json: Path | None = None
    csv: Path | None = None
    md: Path | None = None

    def check(self) -> None:
        """Raises UsageError now, rather than after an hour, when a folder is missing or two
        outputs are one file.
        """
        paths = [path for path in (self.json, self.csv, self.md) if path is not None]
        if len({path.resolve() for path in paths}) < len(paths):
            raise UsageError("--json, --csv and --md must be different files")
        for path in paths:
            if not path.resolve().parent.is_dir():
                raise UsageError(f"cannot write {path}: its folder does not exist")
            if path.is_dir():
                raise UsageError(f"cannot write {path}: it is a folder")

    def save(self, report: Report) -> None:
        """Writes every file asked for. Raises UsageError when one cannot be written."""
        if self.json:
            document = results.finite(report.as_json())
            results.write_atomically(self.json, json.dumps(document, allow_nan=False) + "\n")
        if self.csv:
            results.write_atomically(self.csv, as_csv(report))
        if self.md:
            results.write_atomically(self.md, as_markdown(report))


def _csv_row(row: Row) -> Mapping[str, object]:
    subject, time, host = row.subject, row.time, row.host
    cells: dict[str, object] = {
        "kernel": subject.kernel,
        "device": subject.device,
        "device_name": subject.device_name,
        "emulated": subject.emulated,
        "axes": label(subject.axes),
        "mode": subject.mode,
        "verified": row.verified,
        "gflops": row.gflops,
        "gbytes_per_s": row.gbytes_per_s,
        "roof_percent": row.roof_percent,
        "roof": row.roof,
        "max_rel_rms": row.error.get("max_rel_rms"),
        "tolerance": row.error.get("tolerance"),
        "reason": row.reason,
        "notes": "; ".join(row.notes),
    }
    if time and host and row.measured:
        cells |= {
            "time_ns": time.median,
            "ci_low_ns": time.low,
            "ci_high_ns": time.high,
            "n": time.n,
        }
        cells |= {
            "stop": row.measured.stop,
            "of": row.measured.primary,
            "batch": row.measured.batch,
        }
        cells |= {"host_ns": host.median}
    return cells


def as_csv(report: Report) -> str:
    """One line a row, samples left out."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for row in report.rows:
        writer.writerow({k: "" if v is None else v for k, v in _csv_row(row).items()})
    return text.getvalue()


def as_markdown(report: Report) -> str:
    """The terminal's table for a report or a pull request, with what it was measured on."""
    lines = [
        f"- {key}: {value}" for key, value in report.env.items() if isinstance(value, (str, int))
    ]
    lines += ["", "| " + " | ".join(rowtable.COLUMNS) + " |", "|" + "---|" * len(rowtable.COLUMNS)]
    for row in report.rows:
        cells = (cell.replace("|", "\\|") for cell in rowtable.cells(row))
        lines.append("| " + " | ".join(cells) + " |")
    if report.interrupted:
        lines += ["", "Interrupted: rows are missing."]
    return "\n".join(lines) + "\n"
