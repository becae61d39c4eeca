"""Draws rivals that were measured in turns: the ratio of times with its interval, one line for each
rival at each point. Called by drawings.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _bench.rows.results import Row

from . import figures, ticks
from .roofline import kernels

MOST_ON_A_SHEET = 30
LABEL_LETTERS = 44
VERDICTS = ("FAST", "SAME", "AMBIGUOUS", "SLOW")


def draw(folder: Path, device: str, rows: Sequence[Row], footer: str) -> list[bool]:
    """Draws versus-DEVICE.svg. Many rows are spread over several files, whose names end in -2, -3
    and so on. Draws nothing without rivals.
    """
    rivals = [row for row in rows if "versus" in row.extra and not row.subject.emulated]
    made = []
    for at in range(0, len(rivals), MOST_ON_A_SHEET):
        name = figures.slug("versus", device, str(at // MOST_ON_A_SHEET + 1) if at else "")
        made.append(_sheet(folder, name, device, rivals[at : at + MOST_ON_A_SHEET], footer))
    return made


def _sheet(folder: Path, name: str, device: str, rivals: Sequence[Row], footer: str) -> bool:
    first = ", ".join(dict.fromkeys(str(row.extra["versus"]["against"]) for row in rivals))
    title = f"{kernels(rivals)} against {first}: {device}"
    size = (figures.WIDTH, 1.3 + 0.32 * len(rivals))
    sheet = figures.Sheet(title, size=size)
    (axes,) = sheet.axes
    threshold = max(float(row.extra["versus"]["threshold"]) for row in rivals)
    axes.axvspan(1 - threshold, 1 + threshold, color="#eeeeee", lw=0, zorder=0)
    axes.axvline(1.0, color="#000000", lw=1)
    for at, verdict in enumerate(VERDICTS):
        _marks(axes, rivals, verdict, figures.series(at))
    labels = [figures.named(row, LABEL_LETTERS) for row in rivals]
    axes.set_yticks(range(len(rivals)), labels, fontsize=7)
    axes.set_ylim(len(rivals) - 0.5, -0.5)
    ticks.plain(axes, "x", log=False)
    axes.set_xlabel(f"ratio of times, below 1: it takes less than {figures.wrapped(first, 40, 1)}")
    sheet.legend_outside(axes)
    return sheet.save(folder, name, footer)


def _marks(axes: Any, rivals: Sequence[Row], verdict: str, style: dict[str, Any]) -> None:
    """Draws the marks of the rows with that verdict."""
    own = [
        (row.extra["versus"], at)
        for at, row in enumerate(rivals)
        if row.extra["versus"]["verdict"] == verdict
    ]
    if own:
        ratios = [v["ratio"] for v, _ in own]
        below = [max(v["ratio"] - v["ci_low"], 0.0) for v, _ in own]
        above = [max(v["ci_high"] - v["ratio"], 0.0) for v, _ in own]
        axes.errorbar(
            ratios, [at for _, at in own], xerr=[below, above], ls="", capsize=3, ms=5,
            label=verdict, **style,
        )  # fmt: skip
