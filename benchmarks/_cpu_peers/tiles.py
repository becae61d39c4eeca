"""How far the tile model's plan of each product is from the best that a search finds, for each
instruction set of this CPU: `bench.py tune`, one child a shape, one thread.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from . import report, roofs
from .cases import Case, Gemm
from .shows import Line

WITHIN = 5.0
"""Per cent that the model's plan may be slower than the best found."""
LAUNCHES, FLOPS_PER_S = 100, 1e11
"""A search has time for so many launches of a large product, at so many flops a second."""
LIMIT_S = 300.0
"""Of one child: the verification and the last duel of a slow instruction set are not cut short."""
HEAD = ("case", "isa", "model's", "best found", "distance, %", "95 %", "tried", "note")


def sets() -> tuple[str, ...]:
    """The instruction sets that are looked at here; one that the CPU has not tells so."""
    return ("avx512", "avx2", "ref") if platform.machine() == "x86_64" else ("neon", "ref")


def run(
    cases: Iterable[Case], cpus: Sequence[int], env: Mapping[str, str], budget_s: float
) -> Iterator[dict[str, Any]]:
    """A row for each product and instruction set."""
    for isa in sets():
        for case in cases:
            if isinstance(case.of, Gemm):
                yield {"case": case.name, "isa": isa, **_one(case.of, cpus, env, isa, budget_s)}


def _one(
    of: Gemm, cpus: Sequence[int], env: Mapping[str, str], isa: str, budget_s: float
) -> dict[str, Any]:
    kernel = {"float32": "gemm_f32", "float64": "gemm_f64"}[of.dtype]
    axes = [word for name in "mnk" for word in ("-a", f"{name}={getattr(of, name)}")]
    budget_s = max(budget_s, LAUNCHES * of.flops / FLOPS_PER_S)
    command = ["tune", kernel, *axes, "--budget", f"{budget_s:g}", "--seed", "1"]
    try:
        told = roofs.bench(command, cpus, {**env, "SPARKLE_CPU_ISA": isa}, LIMIT_S)
    except RuntimeError as error:
        return {"distance_percent": None, "note": str(error)}
    (row,) = told["results"]
    outcome = row["outcome"]
    if row["wrong"] or outcome is None:
        why = "; ".join(row["wrong"]) or row["failure"]
        return {"distance_percent": None, "note": why}
    return {
        "distance_percent": row["distance_percent"], "tried": outcome["tried"],
        "model_s": outcome["model_s"], "best_s": outcome["best_s"], "best": outcome["best"],
        "model": outcome["model"], "others": row["others"],
        "note": "" if outcome["complete"] else "out of time",
    }  # fmt: skip


def lines(rows: Sequence[Mapping[str, Any]]) -> list[Line]:
    """One for each instruction set."""
    found = []
    for isa in dict.fromkeys(row["isa"] for row in rows):
        here = [row for row in rows if row["isa"] == isa]
        far = sorted(
            (-row["distance_percent"][0], row["case"]) for row in here if row["distance_percent"]
        )
        missing = [row["case"] for row in here if not row["distance_percent"]]
        beyond = [f"{case} {-minus:+.1f} %" for minus, case in far if -minus > WITHIN]
        shown = beyond or [f"{case} {-minus:+.1f} %" for minus, case in far[:1]]
        said = f"{len(far) - len(beyond)} of {len(here)}; {'; '.join(shown) or 'nothing tuned'}"
        said += f"; not tuned: {', '.join(missing)}" if missing else ""
        holds = not beyond and not missing if far else None
        found.append(Line(f"tile model on {isa}, every product", "within 5 %", said, holds))
    return found


def cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """A line of the table."""
    if not row["distance_percent"]:
        return (row["case"], row["isa"], "-", "-", "-", "-", "-", row["note"])
    value, low, high = row["distance_percent"]
    return (
        row["case"], row["isa"], f"{row['model_s'] * 1e6:.4g} us", f"{row['best_s'] * 1e6:.4g} us",
        f"{value:+.1f}", f"{low:+.1f} .. {high:+.1f}", str(row["tried"]), row["note"],
    )  # fmt: skip


def measured(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Was every product tuned, and no plan wrong?"""
    return all(row["distance_percent"] for row in rows)


def markdown(told: Mapping[str, Any]) -> str:
    """The document for people."""
    env = told["env"]
    shown = [(x["what"], x["target"], x["figure"], report.holds(x["holds"])) for x in told["shows"]]
    text = [
        f"# The tile model on {env['cpu']}", "",
        f"{env['date']}, commit {env['commit']}, load {env['load_1min']} at the start; one thread, "
        f"{told['budget_s']:g} s of search a shape." + report.remark(told["label"]), "",
        *["Not whole: interrupted.", ""] * told["interrupted"],
        *report.lines_of(("target", "wanted", "reached", "holds"), shown), "",
        "Distance: how much longer the model's plan takes than the best found; 0 where the search "
        "found nothing better.", "",
        *report.lines_of(HEAD, [cells(row) for row in told["rows"]]),
    ]  # fmt: skip
    return "\n".join(text) + "\n"
