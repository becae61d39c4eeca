"""Writes a run as JSON and as Markdown. Pure functions, except for the machine's facts (bench.py's
env).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from _console import table

from . import OURS, figures, goals
from .figures import Row

SCHEMA = 1
HEAD = ("case", "ours", "GFLOPS", "error", "best peer", "its time", "ratio", "others")
MAPS = ("case", "ours", "GB/s", "error", "best peer", "its time", "ratio", "others")


def document(rows: Sequence[Row], roofs: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Returns one document: the measured rows, and for each target of speed the figure that was
    reached. `roofs` has the result of roofs.measure for each number of threads.
    """
    threads = sorted({row["threads"] for row in rows})
    made = {
        str(t): [
            line.as_json()
            for line in goals.lines([r for r in rows if r["threads"] == t], roofs.get(str(t), {}))
        ]
        for t in threads
    }
    return {"schema": SCHEMA, "roofs": dict(roofs), "rows": list(rows), "shows": made}


def ratios(row: Row) -> dict[str, Any]:
    """Returns the ratios of one row: against the best peer, and against each way in which a peer
    computes the row (`Way` of base.py).
    """
    best = figures.against_best(row)
    each = {way: figures.ratio(row, way) for way in figures.timed(row) if figures.is_peer(way)}
    return {
        "best": best.as_json() if best else None,
        "each": {way: one.as_json() for way, one in each.items() if one},
    }


def cells(row: Row) -> tuple[str, ...]:
    """Returns the cells of one line of the table. A result that was not right has its verdict where
    the time would be.
    """
    mine = f"{OURS} checked"
    ours, best = row["ways"].get(mine, {}), figures.against_best(row)
    ns = figures.median(row, mine)
    amount = row["nbytes"] if row["kind"] == "map" else row["flops"]
    error = f"{ours['error']:.1e}" if "error" in ours else "-"
    others = [
        f"{way} {_of(row, way)}"
        for way in row["ways"]
        if way != mine and (best is None or way != best.of)
    ]
    return (
        row["case"],
        table.duration(ns) if ns else ours.get("verdict", "-"),
        f"{amount / ns:.4g}" if ns else "-",
        error,
        best.of if best else "-",
        table.duration(figures.median(row, best.of)) if best else "-",
        goals.text(best) if best else "-",
        "; ".join(others),
    )


def _of(row: Row, way: str) -> str:
    entry = row["ways"][way]
    ns = figures.median(row, way)
    if ns is None:
        return f"{entry['verdict']} (error {entry['error']:.1e})" if "error" in entry else "failed"
    return table.duration(ns)


def markdown(told: Mapping[str, Any]) -> str:
    """Returns the document `told` (see `document`) as Markdown: the conditions of the run, the
    targets, and a table for each group of cases.
    """
    env, rows = told["env"], told["rows"]
    lines = [
        f"# CPU peers on {env['cpu']}",
        "",
        f"{env['date']}, commit {env['commit']}, load {env['load_1min']} at the start, kernel "
        f"{env['kernel']}, Python {env['python']}." + remark(told["label"]),
        "",
    ]
    lines += ["Few rounds: a trial, not a measurement.", ""] * told["quick"]
    lines += ["Not whole: interrupted, or the time was over.", ""] * told["interrupted"]
    for name, peer in told["peers"].items():
        lines.append(f"* {name}: {peer.get('version') or 'absent, ' + peer['absent']}")
    taken = ", ".join(f"{key}={value}" for key, value in told["removed"].items())
    lines += [f"* taken out of the environment: {taken or 'nothing'}", ""]
    for threads in sorted({row["threads"] for row in rows}):
        roof = told["roofs"].get(str(threads), {})
        lines += [f"## {threads} thread{'s' * (threads > 1)}", ""]
        lines += [_roof(roof), ""] if roof else []
        lines += lines_of(
            ("target", "wanted", "reached", "holds"),
            [
                (line["what"], line["target"], line["figure"], holds(line["holds"]))
                for line in told["shows"][str(threads)]
            ],
        )
        lines += [
            "",
            "Times are medians; ratio: the best peer's over ours, with its 95 % interval.",
            "",
        ]
        here = [row for row in rows if row["threads"] == threads]
        for group in dict.fromkeys(row["group"] for row in here):
            some = [row for row in here if row["group"] == group]
            head = MAPS if some[0]["kind"] == "map" else HEAD
            lines += [f"### {group}", "", *lines_of(head, [cells(row) for row in some]), ""]
    return "\n".join(lines).rstrip() + "\n"


def measured(rows: Sequence[Row]) -> bool:
    """True if our result was right, and timed, in every row."""
    mine = (row["ways"].get(f"{OURS} checked", {}) for row in rows)
    return all(entry.get("verdict") == "right" for entry in mine)


def machine(env: Mapping[str, Any]) -> str:
    """Returns the name of the folder under results/ for this machine."""
    return re.sub(r"[^a-z0-9]+", "-", f"{env['cpu']} {env['cpu_model'] or ''}".lower()).strip("-")


def rows_a_line(told: Mapping[str, Any]) -> str:
    """Returns the results of a run (see `document`) as JSON with one row per line, so that a diff
    is readable.
    """
    head = json.dumps({k: v for k, v in told.items() if k != "rows"}, indent=1, allow_nan=False)
    rows = ",\n".join(json.dumps(row, allow_nan=False) for row in told["rows"])
    return f'{head[:-2]},\n "rows": [\n{rows}\n]}}\n'


def remark(label: str) -> str:
    """Returns the text of --label as a sentence."""
    return f" {label.rstrip('.')}." if label else ""


def _roof(roof: Mapping[str, float]) -> str:
    return (
        f"FMA peak {roof['float32']:.1f} GFLOPS (f64 {roof['float64']:.1f}), copy rate "
        f"{roof['copy']:.1f} GB/s (best sustained of what reads and writes), measured in this run."
    )


def holds(value: bool | None) -> str:
    """Returns a word that says whether a target holds; None means that no row can decide."""
    return {True: "yes", False: "no", None: "not judged"}[value]


def lines_of(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a table in Markdown."""
    body = [" | ".join(cell.replace("|", "\\|") for cell in cells) for cells in [columns, *rows]]
    return [f"| {body[0]} |", "|" + "---|" * len(columns), *(f"| {line} |" for line in body[1:])]
