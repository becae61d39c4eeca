"""Formats the results of tile_model.py: targets, a table, and both as Markdown. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from _console import table
from _cpu_peers import report
from _cpu_peers.goals import Line

from sparkle_drv.types import TilePlan

WITHIN = 5.0
"""Largest distance, in per cent, of the model's plan from the best found."""
HEAD = (
    "case", "isa", "b", "model's plan", "takes", "best found", "takes", "distance, %", "95 %",
    "tried", "note",
)  # fmt: skip
FEWEST = 4
"""The number of plans that a search must have tried for its row to count, unless there
are fewer."""
Row = Mapping[str, Any]


def plan(of: TilePlan) -> str:
    """Returns the plan's block sizes as "MCxNCxKC", followed by " packed" if b is a packed blob."""
    if not of.levels:
        return of.algo
    return "x".join(str(size) for size in of.levels[0]) + " packed" * of.pack


def lines(rows: Sequence[Row]) -> list[Line]:
    """Returns a Line for each instruction set: whether the tile model's plans are within WITHIN per
    cent of the best plans found.
    """
    found = []
    for isa in dict.fromkeys(row["isa"] for row in rows):
        here = [row for row in rows if row["isa"] == isa]
        judged = [row for row in here if is_judged(row)]
        ranked = sorted(judged, key=lambda row: -float(row["distance_percent"][0]))
        beyond = [row for row in ranked if row["distance_percent"][0] > WITHIN]
        said = [f"{_name(row)} {row['distance_percent'][0]:+.1f} %" for row in beyond or ranked[:1]]
        missing = [_name(row) for row in here if not is_judged(row)]
        figure = f"{len(judged) - len(beyond)} of {len(judged)}; {'; '.join(said) or 'nothing'}"
        figure += f"; not judged: {', '.join(missing)}" if missing else ""
        short = any(not is_judged(row) and not is_left_out(row) for row in here)
        holds = False if beyond else None if short or not judged else True
        found.append(Line(f"tile model on {isa}, every product", "within 5 %", figure, holds))
    return found


def is_judged(row: Row) -> bool:
    """True if enough plans were tried to say how far the model's plan is from the best."""
    return bool(row["distance_percent"]) and (row["tried"] >= FEWEST or not row["note"])


def is_left_out(row: Row) -> bool:
    """True if the row was left out on purpose."""
    return str(row["note"]).startswith("left out")


def is_failed(row: Row) -> bool:
    """True if the row has no figure although it was not left out on purpose."""
    return not row["distance_percent"] and not is_left_out(row)


def _name(row: Row) -> str:
    return f"{row['case']} ({row['b']} b)"


def cells(row: Row) -> tuple[str, ...]:
    """Returns the cells of one line of the table."""
    first = (row["case"], row["isa"], row["b"])
    if not row["distance_percent"]:
        return (*first, *("-",) * 7, row["note"])
    value, low, high = row["distance_percent"]
    same = row["best"] == row["model"]
    return (
        *first, row["model"], table.duration(row["model_s"] * 1e9),
        "the same" if same else row["best"], "-" if same else table.duration(row["best_s"] * 1e9),
        f"{value:+.1f}", f"{low:+.1f} .. {high:+.1f}", str(row["tried"]), row["note"],
    )  # fmt: skip


def markdown(told: Mapping[str, Any]) -> str:
    """Returns the document `told` with the results of a run as Markdown."""
    env = told["env"]
    shown = [(x["what"], x["target"], x["figure"], report.holds(x["holds"])) for x in told["shows"]]
    text = [
        f"# The tile model on {env['cpu']}", "",
        f"{env['date']}, commit {env['commit']}, load {env['load_1min']} at the start; one thread, "
        f"{told['budget_s']:g} s for all shapes." + report.remark(told["label"]), "",
        *["Not whole: interrupted.", ""] * told["interrupted"],
        *report.lines_of(("target", "wanted", "reached", "holds"), shown), "",
        "Plans: mc x nc x kc. Distance: how much longer the model's plan takes than the best "
        "found, by samples taken in turn after the search; 0 where nothing better was found. b: "
        "fresh, it may change, and is packed in the call if at all; kept, it stays, and may be "
        "packed once.",
        "",
        *report.lines_of(HEAD, [cells(row) for row in told["rows"]]),
    ]  # fmt: skip
    return "\n".join(text) + "\n"
