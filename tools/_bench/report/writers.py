"""The files of a report. --json, --csv and --md are rewritten after every row and never half
written; the drawings of --svg come at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from _console import output
from _console.problems import UsageError

from _bench.rows import results
from _bench.rows.results import Report
from sparkle_drv import saved_files

from . import drawings, figures, tables
from .csv_table import as_csv


@dataclass(frozen=True)
class Outputs:
    """The paths of the output files; None for an output that is not requested."""

    json: Path | None = None
    csv: Path | None = None
    md: Path | None = None
    svg: Path | None = None

    def check(self) -> None:
        """Raises UsageError before any work when a folder is missing or is a file, when two outputs
        are the same file, or when drawings cannot be made. Makes the folder of the drawings.
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
        """Updates the files during a run. If the process is killed, no file is half written. After
        a power cut the JSON file, from which a run resumes, is complete.

        Device files and pipes get the text only once, at the end. A failed update is not reported:
        the write is tried again at the end, and its failure is reported then.
        """
        for path, text in self._texts():
            with contextlib.suppress(OSError, ValueError):
                if not saved_files.is_stream(path):
                    content = text(report).encode("utf-8", "backslashreplace")
                    saved_files.put(path, content, sync=path == self.json)

    def save(self, report: Report) -> bool:
        """Writes every requested file. If a file cannot be written, prints a line on stderr, writes
        the other files and returns False.
        """
        saved = [output.save("bench.py", path, text(report)) for path, text in self._texts()]
        if self.svg is not None:
            saved.append(drawings.draw(report, self.svg))
        return all(saved)

    def _texts(self) -> list[tuple[Path, Callable[[Report], str]]]:
        every = ((self.json, as_json), (self.csv, as_csv), (self.md, as_markdown))
        return [(path, text) for path, text in every if path is not None]


def as_json(report: Report) -> str:
    """Returns the whole document as strict JSON."""
    head = json.dumps(results.finite(report.head), allow_nan=False)
    rows = ", ".join(row.text for row in report.rows)
    return f'{head[:-1]}, "results": [{rows}]}}\n'


def as_markdown(report: Report) -> str:
    """Returns the tables as Markdown, below the conditions of the measurement, for a report or a
    pull request.
    """
    lines = [
        f"- {key}: {value}" for key, value in report.env.items() if isinstance(value, (str, int))
    ]
    lines += [f"- {said[2:]}" for said in tables.heading(report).splitlines()[1:]]
    for table in tables.tables(report):
        lines += ["", *table.markdown()]
    if report.interrupted:
        lines += ["", "Interrupted: rows are missing."]
    return "\n".join(lines) + "\n"
