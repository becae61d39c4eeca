"""The output of the tune command: its table, its JSON, its exit code. Called by
commands/tune.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from _console import table
from _console.problems import FAILED, OK

from _bench.machine import env, other_load

from . import space
from .search import Outcome


@dataclass
class Row:
    """The result of the search for one kernel at one shape on one device."""

    kernel: str
    device: str
    label: str
    shape: str = ""
    outcome: Outcome[Any] | None = None
    wrong: tuple[str, ...] = ()
    """The sentence of the check about each plan that was wrong."""
    refused: int = 0
    failure: str = ""
    """The reason why there is no outcome."""
    kept: bool = False
    others: float = 0.0
    """Share of the host's cores that other processes took during the search."""


COLUMNS = (
    "kernel", "device", "axes", "model's plan", "measured", "best found", "best",
    "distance", "95 %", "tried", "note",
)  # fmt: skip


def cells(row: Row) -> tuple[str, ...]:
    """Returns the cells of a row of the table."""
    found = row.outcome
    if found is None:
        blank = ("-",) * 7
        return (row.kernel, row.device, row.label, *blank, row.failure)
    same = found.best == found.model
    ratio, low, high = found.ratio
    notes = [] if found.complete else ["out of time"]
    notes += [f"{len(row.wrong)} WRONG"] if row.wrong else []
    notes += [] if row.kept else ["not kept"]
    notes += [f"others took {row.others:.0%} of the cpus"] if row.others > other_load.NOTED else []
    return (
        row.kernel,
        row.device,
        row.label,
        space.text(found.model),
        table.duration(found.model_s * 1e9),
        "the same" if same else space.text(found.best),
        table.duration(found.best_s * 1e9),
        f"{100 * (ratio - 1):+.1f} %" if not same else "0 %",
        f"{100 * (low - 1):+.1f} .. {100 * (high - 1):+.1f} %" if ratio != low else "-",
        str(found.tried),
        ", ".join(notes),
    )


def document(rows: Sequence[Row], seed: int, interrupted: bool) -> dict[str, Any]:
    """Returns the document that --json writes."""
    results = []
    for row in rows:
        entry = asdict(row)
        if row.outcome is not None:
            # A ratio below 1 means that the plan of ops' tile model was faster than the best other
            # plan in the final comparison: no better plan was found.
            entry["distance_percent"] = [100 * max(r - 1, 0.0) for r in row.outcome.ratio]
        results.append(entry)
    return {
        "schema": 1,
        "command": "tune",
        "env": env.describe(),
        "seed": seed,
        "interrupted": interrupted,
        "results": results,
    }


def exit_code(rows: Sequence[Row], interrupted: bool) -> int:
    failed = any(row.wrong or (row.outcome is None and row.failure) for row in rows)
    return FAILED if failed or interrupted else OK
