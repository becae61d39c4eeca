"""The files that a report becomes: --json --csv --md, each whole at every moment (written after
every row), and the drawings of --svg at the end.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from _console import output
from _console.problems import UsageError

from _bench.jobs.axes import label
from _bench.machine import noise
from _bench.rows import overhead, results
from _bench.rows.results import CACHE_COUNTS, Report, Row
from sparkle_drv import kept

from . import drawings, figures, row_table

RESOURCES = ("registers", "shared_nbytes", "spill_nbytes", "max_group_size")
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
    "roof_low_percent",
    "roof_high_percent",
    "roof",
    *noise.CSV_COLUMNS,
    "max_rel_rms",
    "tolerance",
    "reason",
    "notes",
    "ioctls_per_submit",
    "ib_dwords_per_dispatch",
    *CACHE_COUNTS.values(),
    *RESOURCES,
    *overhead.CSV_COLUMNS,
]


@dataclass(frozen=True)
class Outputs:
    """Where to write what; None: not at all."""

    json: Path | None = None
    csv: Path | None = None
    md: Path | None = None
    svg: Path | None = None

    def check(self) -> None:
        """Raises UsageError before any work when a folder is missing or in a file's place, when two
        outputs are one file, or when drawings cannot be made. Makes the folder of the drawings.
        """
        paths = [path for path in (self.json, self.csv, self.md) if path is not None]
        if output.overlap(*paths):
            raise UsageError("--json, --csv and --md must be different files")
        for path in paths:
            place = os.path.realpath(path)
            if os.path.isdir(place):
                raise UsageError(f"cannot write {path}: it is a folder")
            if not os.path.exists(place) and not os.path.isdir(os.path.dirname(place)):
                raise UsageError(f"cannot write {path}: its folder does not exist")
        if self.svg is not None:
            figures.check(self.svg)

    def so_far(self, report: Report) -> None:
        """Brings the files up to date in the middle of a run: what ends it suddenly leaves them
        whole. Not devices and pipes, which take a text once. What cannot be written is told at the
        end of the run, when it is tried again.
        """
        for path, text in self._texts():
            with contextlib.suppress(OSError, ValueError):
                if not kept.is_stream(path):
                    kept.put(path, text(report).encode("utf-8", "backslashreplace"))

    def save(self, report: Report) -> bool:
        """Writes every file asked for. False when one could not be written, which stderr then
        says; the others are.
        """
        saved = [output.save("bench.py", path, text(report)) for path, text in self._texts()]
        if self.svg is not None:
            saved.append(drawings.draw(report, self.svg))
        return all(saved)

    def _texts(self) -> list[tuple[Path, Callable[[Report], str]]]:
        every = ((self.json, as_json), (self.csv, as_csv), (self.md, as_markdown))
        return [(path, text) for path, text in every if path is not None]


def as_json(report: Report) -> str:
    """The whole document, strict JSON."""
    return json.dumps(results.finite(report.as_json()), allow_nan=False) + "\n"


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
        **{name: row.extra.get("resources", {}).get(name) for name in RESOURCES},
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
    lines += ["", *_table(row_table.COLUMNS, [row_table.cells(row) for row in report.rows])]
    compared = row_table.overhead_lines(report.rows)
    if compared:
        lines += ["", *_table(row_table.OVERHEAD_COLUMNS, compared)]
    if report.interrupted:
        lines += ["", "Interrupted: rows are missing."]
    return "\n".join(lines) + "\n"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    body = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [f"| {' | '.join(cells)} |" for cells in [list(columns), *body]]
    return [lines[0], "|" + "---|" * len(columns), *lines[1:]]
